"""The advice of the paper and of the handbook, and whether the measurement agrees. Pure.

The handbook is the 2026 chapter on model optimisation that `rubric/tree.toml` cites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.domain.answer import UnmeasuredArm
from advisor.domain.question import Question
from advisor.domain.recommendation import GuidelineOpinion, TreeAdvice, TreeStep
from advisor.domain.results import ScoredArm
from advisor.domain.rubric import (
    LETTERS,
    DecisionTree,
    Guideline,
    TreeNode,
)

#: Workflows of torch.compile with its own compiler.
TORCH_COMPILE = "torch-compile-inductor"
#: By how much an arm has to be faster to matter, as the paper's substantial gain.
CLEARLY_FASTER = 1.2


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


def follow_tree(
    tree: DecisionTree, question: Question, scored: Sequence[ScoredArm] = ()
) -> tuple[TreeAdvice, ...]:
    """Return every leaf that the decision tree leads to; an open question leads both ways."""
    return tuple(_follow(tree, tree.first, (), question, scored)) if tree.first else ()


def _follow(
    tree: DecisionTree,
    name: str,
    steps: tuple[TreeStep, ...],
    question: Question,
    scored: Sequence[ScoredArm],
) -> Iterator[TreeAdvice]:
    if name.startswith("="):
        leaf = tree.leaf[name[1:]]
        yield TreeAdvice(steps=steps, says=leaf.says, workflows=leaf.workflows, source=tree.source)
        return
    node = tree.node[name]
    found = _answer(node, tree, question, scored)
    for answer in (True, False) if found is None else (found,):
        step = TreeStep(question=node.asks, answer=answer)
        target = node.yes if answer else node.no
        yield from _follow(tree, target, (*steps, step), question, scored)


def _answer(
    node: TreeNode, tree: DecisionTree, question: Question, scored: Sequence[ScoredArm]
) -> bool | None:
    match node.fact:
        case "on-nvidia":
            return question.device == "cuda"
        case "generates":
            return question.task in {"generate", "serve"}
        case "serves-users":
            return True if question.task == "serve" else None
        case "open":
            return None
        case "portability-leads":
            return question.priorities.portability >= tree.leads_from
        case "performance-leads":
            return question.priorities.performance >= tree.leads_from
        case "compile-suffices":
            return _compile_suffices(scored)


def _compile_suffices(scored: Sequence[ScoredArm]) -> bool | None:
    """Check that no arm is clearly faster than torch.compile; None if that was not measured."""
    compiled = [arm.speedup for arm in scored if arm.workflow.startswith(TORCH_COMPILE)]
    if not compiled:
        return None
    return max(arm.speedup for arm in scored) < CLEARLY_FASTER * max(compiled)
