"""The most that an arm without a measurement could score."""

from __future__ import annotations

import dataclasses

from advisor.decide.grades import ArmFacts, declared_facts, rate
from advisor.decide.scoring import weigh
from advisor.domain.answer import Answer, UnmeasuredArm
from advisor.domain.catalogue import Catalogue, SiblingGain
from advisor.domain.plan import ArmName
from advisor.domain.question import Question


@dataclasses.dataclass(frozen=True)
class Potential:
    """The most that an arm may reach."""

    speedup: float
    #: Its score at that speed-up, alone and with the bonus for speed.
    score: float
    score_with_bonus: float
    #: The measured arm of its workflow over which the gain in the kept runs limits the speed-up,
    #: and that gain; None if there is no such arm.
    sibling: str | None
    gain: SiblingGain | None


def potential_of(left_out: UnmeasuredArm, answer: Answer, catalogue: Catalogue) -> Potential | None:
    """Return what the arm may score if its build costs nothing and its declared facts hold.

    Its gain over a measured arm of its workflow in the kept runs limits its speed-up. Without one
    it may exceed its largest lead in them, or the fastest arm if it has none, by the factor of the
    rubric: few models were measured in them. None for an arm that fails a constraint.
    """
    rubric, question = catalogue.rubric, answer.question
    measurements = answer.results.measurements
    earlier = catalogue.earlier_runs.get(question.device, {}).get(left_out.arm)
    gains = earlier.gains if earlier else {}
    margin = catalogue.presets.builds.gain_margin
    limits = {
        each.arm: each.speedup.value * gains[each.arm].largest * margin
        for each in measurements
        if each.arm in gains
    }
    sibling = min(limits, key=lambda each: limits[each], default=None)
    if sibling is None:
        fastest = max((each.speedup.value for each in measurements), default=1.0)
        lead = (earlier and earlier.largest_lead) or 1.0
        speedup = fastest * lead * rubric.decision.outstanding_gain
    else:
        speedup = limits[sibling]

    arm = ArmName(left_out.workflow, left_out.option or "")
    score = possible_score(arm, speedup, question, catalogue)
    if score is None:
        return None
    gain = gains[sibling] if sibling else None
    return Potential(speedup, score, score + rubric.decision.speed_bonus, sibling, gain)


def possible_score(
    arm: ArmName, speedup: float, question: Question, catalogue: Catalogue
) -> float | None:
    """Return the score of an arm whose build costs nothing and whose declared facts hold.

    None for an arm that then fails a constraint.
    """
    workflow, rubric = catalogue.by_id[arm.workflow].for_arm(arm.option or ""), catalogue.rubric
    assumed = {"performance_portability": None, "speedup": speedup, "build_seconds": 0.0}
    facts = ArmFacts({**declared_facts(workflow), **assumed}, evidence={})
    ratings = {each.id: rate(each, facts, rubric) for each in rubric.criteria}
    letters = (each for each in question.constraints if each.quantity in ratings)
    is_met = all(each.admits(ratings[each.quantity].tier) for each in letters)
    return weigh(ratings, question) if is_met else None
