"""Render the robustness and the costs of a recommendation, and the published advice on it."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.measurement import Interval
from advisor.domain.recommendation import (
    BreakEven,
    EnergyUse,
    GuidelineOpinion,
    Recommendation,
    TreeAdvice,
)
from advisor.system.number_format import (
    format_interval,
    format_number,
    format_share_of_draws,
)

AGREEMENT = {
    True: "the measurement agrees",
    False: "the measurement disagrees",
    None: "not decided here",
}

#: The handbook is the source of `rubric/tree.toml`.
TREE_TITLE = "Decision tree of a handbook on model optimisation (2026):"


def sensitivity(advice: Recommendation) -> list[str]:
    """Return the robustness, the costs of building and serving, and the published advice."""
    lines = [f"  {line}" for line in robustness(advice)]
    lines += [f"  {break_even_line(entry)}" for entry in advice.break_even]
    lines += [
        f"  serving with {cost.arm} at {cost.shape.description} costs "
        f"{format_number(cost.value)} per {cost.unit}"
        for cost in advice.costs
        if cost.arm == advice.arm
    ]
    lines += [f"  {_energy_line(use)}" for use in advice.energy]
    if advice.guideline is not None:
        lines += _guideline_lines(advice.guideline)
    lines += titled(TREE_TITLE, _tree_lines(advice.tree))
    return lines + titled("Next:", advice.next_steps)


def robustness(advice: Recommendation) -> list[str]:
    """Return for how many weightings the arm leads, and which arms no other arm dominates."""
    lines = []
    share = advice.simplex_share
    if share is not None:
        part = "all" if share == 1 else f"{format_share_of_draws(share)} of all"
        stands_for_others = share > advice.simplex.get(advice.arm, share)
        subject = (
            "it, or a less exact or slower arm that it stands for," if stands_for_others else "it"
        )
        lines.append(
            f"{subject} has the highest score for {part} weightings "
            "of performance, productivity and portability"
        )
    if advice.pareto:
        lines.append(
            "not beaten in speed, build time, memory and all grades, accuracy apart (Pareto "
            f"front): {', '.join(advice.pareto)}"
        )
    return lines


def break_even_line(entry: BreakEven) -> str:
    """Return after how many requests the build is paid back at one batch size."""
    where = f"at {entry.shape.description} the build"
    if entry.requests is None:
        return f"{where} is never repaid against the baseline"
    requests = Interval(value=entry.requests, low=entry.low, high=entry.high)
    return (
        f"{where} is repaid after {format_interval(requests, unit=' requests', decimals=0)}, each "
        "of one sample, against the baseline"
    )


def _energy_line(use: EnergyUse) -> str:
    return (
        f"{use.arm} at {use.shape.description}: {format_number(use.joules_per_call, digits=3)}"
        f" J per call, {format_number(use.watt_hours, digits=3)} Wh per thousand requests"
    )


def _guideline_lines(guideline: GuidelineOpinion) -> list[str]:
    return [
        f"Published advice: {guideline.says}",
        f"  {AGREEMENT[guideline.agrees]}: {guideline.why}",
        f"  source: {guideline.source}",
    ]


def _tree_lines(tree: Sequence[TreeAdvice]) -> list[str]:
    """Return a line for each leaf that the answers reach, with the questions on its path."""
    return [
        "; ".join(f"{step.question} {'yes' if step.answer else 'no'}" for step in leaf.steps)
        + f": {leaf.says}"
        for leaf in tree
    ]


def titled(title: str, lines: Sequence[str]) -> list[str]:
    """Return the lines indented below a title; nothing for no lines."""
    return [title, *(f"  {line}" for line in lines)] if lines else []
