"""The table of the ranked arms, in its rows and in the cells that other tables have as well."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide.trust import is_unfit
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.interval import Interval
from advisor.domain.measurement import Measurement
from advisor.domain.rubric import LETTERS
from advisor.domain.scores import ScoredArm
from advisor.report.formatting import accuracy_cell
from advisor.report.sections.answer import has_unfit_problem
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_seconds,
    format_share,
    format_speedup,
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


def speed_unit(answer: Answer) -> str:
    """Return the unit of the speed of each shape: `tok/s` for generated text, else `ms`."""
    ranked = answer.ranked
    return "tok/s" if ranked and any(cell.generation for cell in ranked[0].cells) else "ms"


def ranking_rows(answer: Answer, *, has_intervals: bool) -> list[list[str]]:
    """Return the head and a row for each arm with a score, best first; nothing without one."""
    shapes = column_shapes(answer.ranked)
    head = [
        *("#", "arm", "speed-up (95 %)" if has_intervals else "speed-up"),
        *(f"{speed_unit(answer)} @{shape}" for shape in shapes),
        *COST_HEADS,
        *CRITERION_HEADS.values(),
        "score",
    ]
    rows = [_ranking_row(arm, shapes, answer, has_intervals=has_intervals) for arm in answer.ranked]
    return [head, *rows] if rows else []


def _ranking_row(
    arm: RankedArm, shapes: Sequence[Shape], answer: Answer, *, has_intervals: bool
) -> list[str]:
    speeds = {
        cell.shape: format_number(cell.throughput.value, 0)
        if cell.generation
        else format_milliseconds(cell.seconds.median)
        for cell in arm.cells
    }
    scored, measured = arm
    unfit = has_unfit_problem(answer)
    return [
        rank_cell(scored, is_unfit=unfit),
        scored.arm,
        format_interval(arm.speedup)
        if has_intervals
        else _speedup_cell(arm.speedup, unfit=is_unfit(answer.results)),
        *(speeds.get(shape, MISSING) for shape in shapes),
        *cost_cells(measured),
        *(LETTERS[scored.ratings[name].tier] for name in CRITERION_HEADS),
        score_cell(scored, is_unfit=unfit),
    ]


def _speedup_cell(speedup: Interval, *, unfit: bool) -> str:
    """Return a speed-up, or its range where the machine was not fit to measure on."""
    low, high = speedup.low, speedup.high
    if unfit and low is not None and high is not None and low < high:
        return f"{format_number(low, 2)} to {format_number(high, 2)}"
    return format_speedup(speedup)


def partly_used(answer: Answer) -> list[str]:
    """Return a line for each such arm, with its share of the work and what proves it."""
    lines = [
        f"  {arm.arm}: {format_share(measured.engaged_share)}"
        f"{f' ({measured.engagement})' if measured.engagement else ''}"
        for arm, measured in answer.ranked
        if measured is not None and measured.cells and measured.engaged_share < HALF
    ]
    return [TITLE, *lines] if lines else []
