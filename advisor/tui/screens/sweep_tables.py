"""Lay out the tables of a sweep: its lengths, and the arms of their mix."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import RankedArm
from advisor.domain.sweep import Lengths
from advisor.report.formatting.phrases import format_lengths
from advisor.report.sections.ranking_cells import rank_cell, score_cell
from advisor.report.sweeps.sweep_document import LengthEntry, SweepDocument
from advisor.store.runs import RunStatus
from advisor.system.number_format import MISSING, format_interval, format_seconds, format_share
from advisor.tui.rendering import text
from advisor.tui.widgets.table import Column

#: Widths of the terminal from which there is room for the score and the build; for the interval of
#: the speed-up; and for the id of the run.
MEDIUM_WIDTH, WIDE_WIDTH, VERY_WIDE_WIDTH = 80, 100, 140
MIN_ARM_WIDTH = 12
#: Heading of the lengths of a forward pass, and of generated text.
INPUTS, INPUTS_AND_OUTPUTS = "Inputs", "In/out"
LENGTH_TERMS = ("sweep",)
SPEED_TERMS = ("speed-up", "baseline")


def length_columns(document: SweepDocument, width: int) -> list[Column]:
    """Return the columns of the lengths that fit into a terminal of a width."""
    names = [format_lengths(each.lengths, document.task) for each in document.lengths]
    heading = INPUTS if document.task == "forward" else INPUTS_AND_OUTPUTS
    first = [
        Column(
            "lengths",
            heading,
            max(len(name) for name in (heading, *names)),
            is_numeric=True,
            terms=LENGTH_TERMS,
        ),
        Column("share", "Share", 6, is_numeric=True, terms=LENGTH_TERMS),
    ]
    is_wide = width >= WIDE_WIDTH
    speed_terms = (*SPEED_TERMS, "interval")
    figures = [
        Column("speed", "Speed", 22 if is_wide else 6, is_numeric=True, terms=speed_terms),
        Column("decision", "Decision", 8, terms=("CLEAR, EITHER, OPEN",)),
        Column("trust", "Trust", 5, terms=("trust",)),
        *([Column("run", "Run", 20)] if width >= VERY_WIDE_WIDTH else []),
    ]
    arms = [each.answer.arm or "not measured" for each in document.lengths]
    return [*first, _arm_column("Advised", arms, width, [*first, *figures]), *figures]


def length_cells(
    entry: LengthEntry,
    document: SweepDocument,
    state: RunStatus | None,
    width: int,
) -> dict[str, str]:
    """Return the cells of a length; `state` is that of its run, None without one."""
    is_wide = width >= WIDE_WIDTH
    speed = entry.answer.speedup
    ratio = text.format_ratio(speed.value) if speed else MISSING
    return {
        "lengths": format_lengths(entry.lengths, document.task),
        "share": format_share(entry.share, decimals=None),
        "arm": entry.answer.arm or _absence(entry, state),
        "speed": format_interval(speed) if is_wide and speed else ratio,
        "decision": entry.answer.decision_word or MISSING,
        "trust": entry.answer.trust or MISSING,
        "run": entry.run_id or MISSING,
    }


def _absence(entry: LengthEntry, state: RunStatus | None) -> str:
    """Return why a length has no advice, in a word."""
    if entry.finished:
        return "no answer"
    return state or "not measured"


def arm_columns(document: SweepDocument, width: int) -> list[Column]:
    """Return the columns of the arms of the mix, with as many lengths as fit."""
    first = [Column("rank", "#", 3, is_numeric=True, terms=("score",))]
    figures = [Column("mix", "Mix", 7, is_numeric=True, terms=(*SPEED_TERMS, "sweep"))]
    last = []
    if width >= MEDIUM_WIDTH:
        last = [
            Column("build", "Build s", 8, is_numeric=True, terms=("cold build",)),
            Column("score", "Score", 6, is_numeric=True, terms=("score", "weights")),
        ]
    for index, each in enumerate(document.lengths):
        name = format_lengths(each.lengths, document.task)
        column = Column(
            _length_key(index), name, max(len(name), 7), is_numeric=True, terms=SPEED_TERMS
        )
        if _room(width, [*first, *figures, column, *last]) >= MIN_ARM_WIDTH:
            figures.append(column)
    shown = [*first, *figures, *last]
    arms = [entry.arm for entry in document.ranked]
    return [*first, _arm_column("Workflow", arms, width, shown), *figures, *last]


def arm_cells(entry: RankedArm, document: SweepDocument) -> dict[str, str]:
    """Return the cells of an arm of the mix, with its speed-up at each length."""
    by_length = _speedups(document, entry.arm)
    return {
        "rank": rank_cell(entry.scored),
        "arm": entry.arm,
        "mix": text.format_ratio(entry.scored.speedup),
        **{
            _length_key(index): text.format_ratio(by_length.get(each.lengths))
            for index, each in enumerate(document.lengths)
        },
        "build": format_seconds(entry.measured.build_seconds.cold if entry.measured else None),
        "score": score_cell(entry.scored),
    }


def _speedups(document: SweepDocument, arm: str) -> dict[Lengths, float]:
    curve = next((curve for curve in document.curves if curve.arm == arm), None)
    return {point.lengths: point.speedup.value for point in curve.points} if curve else {}


def _length_key(index: int) -> str:
    return f"length-{index}"


def _arm_column(heading: str, arms: Sequence[str], width: int, others: Sequence[Column]) -> Column:
    """Return the column of the arms next to `others`, as wide as the longest one if it fits."""
    longest = max(map(len, arms), default=0)
    cells = max(min(longest, _room(width, others)), MIN_ARM_WIDTH)
    return Column("arm", heading, cells, is_name=True, terms=("workflow", "arm"))


def _room(width: int, columns: Sequence[Column]) -> int:
    """Return the cells that are left for the arm, with a cell between two columns."""
    return width - 2 - sum(column.width + 1 for column in columns)
