"""The advice of the paper and of a handbook, and whether the measurement agrees. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import UnmeasuredArm
from advisor.domain.question import Question
from advisor.domain.recommendation import GuidelineOpinion
from advisor.domain.results import ScoredArm
from advisor.domain.rubric import LETTERS, Guideline


def choose_guideline(guidelines: Sequence[Guideline], question: Question) -> Guideline | None:
    """Return the first guideline that fits the task, the device and the weights."""
    return next((guideline for guideline in guidelines if _fits(guideline, question)), None)


def _fits(guideline: Guideline, question: Question) -> bool:
    if question.task not in guideline.tasks or question.device not in guideline.devices:
        return False
    return (
        guideline.criterion is None
        or getattr(question.priorities, guideline.criterion) >= guideline.at_least
    )


def compare_with_guideline(
    guideline: Guideline,
    winner: ScoredArm,
    scored: Sequence[ScoredArm],
    excluded: Sequence[UnmeasuredArm],
    *,
    as_good: Sequence[str] = (),
) -> GuidelineOpinion:
    """Return the guideline and whether the answer agrees.

    That is null if nothing it names was measured, and if it names a workflow that is about as good.
    """
    agrees: bool | None
    named = [arm for arm in scored if arm.workflow in guideline.workflows]
    rivals = [name for name in as_good if name in guideline.workflows]
    if winner.workflow in guideline.workflows:
        agrees, why = True, f"the guideline recommends {winner.workflow}"
    elif rivals:
        agrees, why = None, f"{rivals[0]}, which the guideline recommends, is about as good"
    elif named:
        agrees, why = False, _explain_difference(winner, named[0])
    else:
        agrees, why = None, _explain_absence(guideline, excluded)
    return GuidelineOpinion(
        id=guideline.id,
        says=guideline.says,
        workflows=guideline.workflows,
        agrees=agrees,
        why=why,
        source=guideline.source,
    )


def _explain_difference(winner: ScoredArm, named: ScoredArm) -> str:
    if named.failed_constraints:
        return f"{named.arm} fails a constraint: {'; '.join(named.failed_constraints)}"
    behind = [
        f"{name.replace('_', ' ')} "
        f"({LETTERS[rating.tier]} against {LETTERS[winner.ratings[name].tier]}: {rating.why})"
        for name, rating in named.ratings.items()
        if rating.tier < winner.ratings[name].tier
    ]
    if not behind:
        return (
            f"{named.arm} has the same letters and runs {named.speedup:.2f}x as fast as the "
            f"baseline, {winner.arm} {winner.speedup:.2f}x"
        )
    return (
        f"{named.arm} scores {named.score:.2f} against {winner.score:.2f}: "
        f"it is behind in {', '.join(behind)}"
    )


def _explain_absence(guideline: Guideline, excluded: Sequence[UnmeasuredArm]) -> str:
    reasons = [
        f"{entry.workflow}: {entry.reason}"
        for entry in excluded
        if entry.workflow in guideline.workflows
    ]
    because = "; ".join(reasons) or "none is in the plan"
    return f"none of the recommended workflows was measured ({because})"
