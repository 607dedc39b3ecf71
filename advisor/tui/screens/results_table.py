"""Lay out and sort the ranking of the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from advisor.domain.decision import ScoredArm
from advisor.domain.measurement import Cell, Measurement
from advisor.domain.rubric import LETTERS
from advisor.pipeline.decision import Decision
from advisor.report.accuracy_text import accuracy_cell
from advisor.system.number_format import format_mebibytes, format_seconds
from advisor.tui.rendering import text
from advisor.tui.rendering.arm_detail import find_measurement
from advisor.tui.widgets.table import Column

CRITERION_HEADS = {
    "performance": "Pf",
    "productivity": "Pd",
    "portability": "Pt",
    "input_flexibility": "If",
    "architecture_support": "As",
}
#: Criteria that narrow terminals leave out.
WIDE_CRITERIA = {"input_flexibility", "architecture_support"}
SORT_ARROW = "\N{BLACK DOWN-POINTING TRIANGLE}"
MAX_ARM_WIDTH = 60
#: Widths of the terminal from which there is room for more columns.
MEDIUM_WIDTH, WIDE_WIDTH, VERY_WIDE_WIDTH = 72, 92, 140

#: Sorts the arms in ascending order.
SORT_KEYS: dict[str, Callable[[ScoredArm, Measurement], float]] = {
    "score": lambda arm, _: arm.rank,
    "speed": lambda arm, _: -arm.speedup,
    "ttft": lambda _, measured: _none_last(_generation_figure(measured, "ttft_seconds")),
    "itl": lambda _, measured: _none_last(_generation_figure(measured, "itl_seconds")),
    "build": lambda _, measured: measured.build_seconds.cold,
    "memory": lambda _, measured: _none_last(measured.memory_bytes.peak),
}
GENERATION_SORT_KEYS = {"ttft", "itl"}


def _none_last(value: float | None) -> float:
    return float("inf") if value is None else value


def sort_names(*, generates_text: bool) -> list[str]:
    """Return the names of the available sort orders."""
    return [name for name in SORT_KEYS if generates_text or name not in GENERATION_SORT_KEYS]


def sort_arms(decision: Decision, sort: str) -> list[ScoredArm]:
    """Return the arms in a sort order; arms with equal keys are ordered by rank."""
    return sorted(
        decision.scored,
        key=lambda arm: (SORT_KEYS[sort](arm, find_measurement(decision, arm.arm)), arm.rank),
    )


def ranking_columns(decision: Decision, width: int, sort: str) -> list[Column]:
    """Return the columns that fit into a terminal of a width; an arrow marks the sort order."""
    generates_text = decision.header.question.task == "generate"
    columns = [
        Column("speed", "Speed", 6, is_numeric=True),
        *_call_columns(decision, width, generates_text=generates_text),
    ]
    if generates_text and width >= MEDIUM_WIDTH:
        columns.append(Column("ttft", "TTFT", 7, is_numeric=True))
        columns.append(Column("itl", "ITL", 6, is_numeric=True))
    if width >= (WIDE_WIDTH if generates_text else MEDIUM_WIDTH):
        columns.append(Column("build", "Build s", 7, is_numeric=True))
    if width >= WIDE_WIDTH:
        columns.append(Column("memory", "MiB", 6, is_numeric=True))
        columns.append(Column("accuracy", "Error", 8, is_numeric=True))
    columns += [
        Column(name, heading, 2)
        for name, heading in CRITERION_HEADS.items()
        if width >= WIDE_WIDTH or name not in WIDE_CRITERIA
    ]
    columns.append(Column("score", "Score", 6, is_numeric=True))
    arm_width = max(width - 8 - sum(column.width + 2 for column in columns), 14)
    for column in columns:
        column.heading += SORT_ARROW if column.key == sort else ""
    return [
        Column("rank", "#", 2, is_numeric=True),
        Column("arm", "Workflow", min(arm_width, MAX_ARM_WIDTH)),
        *columns,
    ]


def _call_columns(decision: Decision, width: int, *, generates_text: bool) -> Iterable[Column]:
    """Return a column for each of the batch sizes that fit."""
    unit = "tok/s" if generates_text else "ms"
    measurements = decision.results.measurements
    sizes = [cell.batch_size for cell in measurements[0].cells] if measurements else []
    most = 4
    if width < WIDE_WIDTH:
        most = 1
    elif generates_text and width < VERY_WIDE_WIDTH:
        most = 2
    return [
        Column(f"call-{size}", f"{unit}@{size}", max(len(f"{unit}@{size}"), 5), is_numeric=True)
        for size in sizes[:most]
    ]


def ranking_cells(arm: ScoredArm, measured: Measurement, arm_width: int) -> dict[str, str]:
    """Return the cells of an arm; `!` marks an arm that does not meet the required tiers."""
    return {
        "rank": f"{arm.rank}{'!' if arm.fails else ''}",
        "arm": text.truncate_middle(text.printable(arm.arm), arm_width),
        "speed": text.format_ratio(arm.speedup),
        **{f"call-{cell.batch_size}": _call_figure(cell) for cell in measured.cells},
        "ttft": text.format_milliseconds(_generation_figure(measured, "ttft_seconds")),
        "itl": text.format_milliseconds(_generation_figure(measured, "itl_seconds")),
        "build": format_seconds(measured.build_seconds.cold),
        "memory": format_mebibytes(measured.memory_bytes.peak),
        "accuracy": accuracy_cell(measured.correctness),
        **{name: LETTERS[rating.tier] for name, rating in arm.ratings.items()},
        "score": f"{arm.score:.2f}",
    }


def _call_figure(cell: Cell) -> str:
    """Return the tokens per second of generated text, or the milliseconds of a call."""
    if cell.generation is not None:
        return text.format_number(cell.throughput.value)
    return text.format_milliseconds(cell.seconds.median)


def _generation_figure(
    measured: Measurement, name: Literal["ttft_seconds", "itl_seconds"]
) -> float | None:
    """Return a figure of generated text at the first batch size."""
    generation = measured.cells[0].generation if measured.cells else None
    return getattr(generation, name) if generation is not None else None
