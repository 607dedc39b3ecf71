"""Cells that every table of ranked arms has."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import Measurement
from advisor.domain.scores import ScoredArm
from advisor.report.formatting import accuracy_cell
from advisor.system.number_format import (
    MISSING,
    format_mebibytes,
    format_number,
    format_seconds,
    format_share,
)
from probes.wire.shape import Shape

#: Column heads of the criteria, in the order of every table.
CRITERION_HEADS = {
    "performance": "Perf",
    "productivity": "Prod",
    "portability": "Port",
    "input_flexibility": "Flex",
    "architecture_support": "Arch",
}
#: Column heads of `cost_cells`.
COST_HEADS = ("build s", "MiB", "error")
#: More of several lengths have no columns of their own.
MOST_SHAPES = 4
TITLE = "Used for less than half of the work, the rest ran as without it:"
#: Share of the work below which an arm is listed; tables and `explain` have the share of each.
HALF = 0.5


def column_shapes(ranked: Sequence[RankedArm]) -> list[Shape]:
    """Return the shapes whose times have a column: all, or none if they are many lengths."""
    shapes = [cell.shape for cell in ranked[0].cells] if ranked else []
    return shapes if len(shapes) <= MOST_SHAPES or not shapes[0].lengths else []


def rank_cell(arm: ScoredArm, *, is_unfit: bool = False) -> str:
    """Return the rank, with `!` for an arm that a constraint excludes.

    Figures that were measured on a machine that was not fit give no rank.
    """
    return MISSING if is_unfit else f"{arm.rank}{'!' if arm.failures else ''}"


def score_cell(arm: ScoredArm, *, is_unfit: bool = False) -> str:
    """Return the score, which is missing where the rank is."""
    return MISSING if is_unfit else format_number(arm.score, decimals=2)


def cost_cells(measured: Measurement | None) -> list[str]:
    """Return the seconds of the first build, the peak memory in MiB and the error."""
    if measured is None:
        return [MISSING] * len(COST_HEADS)
    return [
        format_seconds(measured.build_seconds.cold),
        format_mebibytes(measured.memory_bytes.peak),
        accuracy_cell(measured.correctness),
    ]


def partly_used(answer: Answer) -> list[str]:
    """Return a line for each such arm, with its share of the work and what proves it."""
    lines = [
        f"  {arm.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for arm, measured in answer.ranked
        if measured is not None and measured.cells and measured.engaged_share < HALF
    ]
    return [TITLE, *lines] if lines else []
