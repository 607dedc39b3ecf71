"""Lay out and sort the ranking of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import Cell
from advisor.domain.priorities import FURTHER_CRITERIA
from advisor.domain.rubric import LETTERS
from advisor.report.sections.answer import has_unfit_problem
from advisor.report.sections.ranking_cells import CRITERION_HEADS, cost_cells, score_cell
from advisor.system.number_format import MISSING
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text
from advisor.tui.widgets.table import Column, Row

#: Titles of the criteria, which are terms of the glossary.
CRITERION_TITLES = {name: name.replace("_", " ").title() for name in CRITERION_HEADS}
SORT_ARROW = "\N{BLACK DOWN-POINTING TRIANGLE}"
#: Widths of the terminal from which there is room for more columns.
WIDE_WIDTH, VERY_WIDE_WIDTH = 110, 140
#: Number of batch sizes with a column of their own, in wide and in very wide terminals.
WIDE_SIZES, VERY_WIDE_SIZES = 2, 4

#: Sorts the entries in ascending order.
SORT_KEYS: dict[str, Callable[[RankedArm], float]] = {
    "score": lambda entry: entry.scored.rank,
    "speed": lambda entry: -entry.scored.speedup,
    "ttft": lambda entry: _none_last(_generation_figure(entry, "ttft_seconds")),
    "itl": lambda entry: _none_last(_generation_figure(entry, "itl_seconds")),
    "build": lambda entry: _none_last(
        entry.measured.build_seconds.cold if entry.measured else None
    ),
    "memory": lambda entry: _none_last(
        entry.measured.memory_bytes.peak if entry.measured else None
    ),
}
GENERATION_SORT_KEYS = {"ttft", "itl"}


def _none_last(value: float | None) -> float:
    return float("inf") if value is None else value


def sort_names(*, generates_text: bool) -> list[str]:
    return [name for name in SORT_KEYS if generates_text or name not in GENERATION_SORT_KEYS]


def sort_entries(answer: RunAnswer, sort: str) -> list[RankedArm]:
    """Return the ranked arms in a sort order; arms with equal keys are ordered by rank."""
    return sorted(answer.ranked, key=lambda entry: (SORT_KEYS[sort](entry), entry.scored.rank))


def ranking_columns(answer: RunAnswer, width: int, sort: str) -> list[Column]:
    """Return the columns; an arrow marks the sort order."""
    is_text = answer.is_generation
    sizes = [cell.shape for cell in answer.ranked[0].cells] if answer.ranked else []
    most = VERY_WIDE_SIZES if width >= VERY_WIDE_WIDTH else WIDE_SIZES
    calls = {f"call-{shape}": f"{'tok/s' if is_text else 'ms'}@{shape}" for shape in sizes[:most]}
    figures = [
        Column("speed", "Speed", 6, terms=("speed-up", "interval", "baseline")),
        *(
            Column(
                key,
                heading,
                max(len(heading), 6),
                shown_from=WIDE_WIDTH,
                terms=("throughput" if is_text else "call time",),
            )
            for key, heading in calls.items()
        ),
        *(
            Column(key, key.upper(), 7, shown_from=VERY_WIDE_WIDTH, terms=(key.upper(),))
            for key in (("ttft", "itl") if is_text else ())
        ),
        Column("build", "Build s", 8, shown_from=72, terms=("cold build", "break-even")),
        Column("memory", "MiB", 7, shown_from=VERY_WIDE_WIDTH, terms=("memory",)),
        Column("accuracy", "Error", 8, shown_from=VERY_WIDE_WIDTH, terms=("accuracy",)),
        *(
            Column(
                name,
                heading,
                len(heading),
                shown_from=WIDE_WIDTH if name in FURTHER_CRITERIA else 0,
                terms=(CRITERION_TITLES[name], "grade"),
            )
            for name, heading in CRITERION_HEADS.items()
        ),
        Column("score", "Score", 6, shown_from=90, terms=("score", "weights")),
    ]
    for column in figures:
        column.heading += SORT_ARROW if column.key == sort else ""
        column.is_numeric = column.key not in CRITERION_HEADS
    return [
        Column("rank", "#", 3, is_numeric=True, terms=("score",)),
        Column("arm", "Workflow", 16, most=40, is_name=True, terms=("workflow", "arm")),
        Column("interval", "", 16, most=60, terms=("interval", "speed-up", "baseline")),
        *figures,
    ]


def ranking_cells(answer: RunAnswer, entry: RankedArm) -> Row:
    """Return the cells of an arm; `!` marks an arm that does not meet a constraint."""
    scored, measured = entry
    unfit = has_unfit_problem(answer.document)
    return {
        "rank": MISSING if unfit else f"{scored.rank}{rank_mark(answer, entry)}",
        "arm": entry.arm,
        "interval": entry.speedup,
        "speed": text.format_ratio(scored.speedup),
        **{f"call-{cell.shape}": _call_figure(cell) for cell in entry.cells},
        "ttft": text.format_milliseconds(_generation_figure(entry, "ttft_seconds")),
        "itl": text.format_milliseconds(_generation_figure(entry, "itl_seconds")),
        **dict(zip(("build", "memory", "accuracy"), cost_cells(measured), strict=True)),
        **{name: f" {LETTERS[scored.ratings[name].tier]}" for name in CRITERION_HEADS},
        "score": score_cell(scored, is_unfit=unfit),
    }


def rank_mark(answer: RunAnswer, entry: RankedArm) -> str:
    """Return `!` for an arm that fails a constraint, `=` for one that is about as good."""
    if entry.scored.failures:
        return "!"
    certainty = answer.recommendation.certainty if answer.recommendation else None
    workflow = entry.scored.workflow
    if certainty is None or workflow not in certainty.as_good:
        return " "
    viable = (each for each in answer.document.scores if not each.failures)
    best = next(each for each in viable if each.workflow == workflow)
    return "=" if best.arm == entry.arm else " "


def _call_figure(cell: Cell) -> str:
    """Return the tokens per second of generated text, or the milliseconds of a call."""
    if cell.generation is not None:
        return text.format_number(cell.throughput.value)
    return text.format_milliseconds(cell.seconds.median)


def _generation_figure(
    entry: RankedArm, name: Literal["ttft_seconds", "itl_seconds"]
) -> float | None:
    """Return a figure of generated text at the first batch size."""
    generation = entry.cells[0].generation if entry.cells else None
    return getattr(generation, name) if generation is not None else None
