"""Arrange two runs as rows, with the figures of both and the verdict of `p3-advisor compare`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.domain.plan import BASELINE
from advisor.report.comparisons.comparison import Comparison, compare_answers
from advisor.report.comparisons.speed_ratios import SpeedVerdict
from advisor.report.sections.answer import headline

#: Speeds within this share of each other count as equal; the default of `p3-advisor compare`.
THRESHOLD = 0.05

RowVerdict = SpeedVerdict | Literal["only-in-first", "only-in-second", "not-compared"]


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size; a cell is None where that run has no figures."""

    arm: str
    #: None for a server, whose figures are its goodputs.
    batch_size: int | None
    first: Cell | Interval | None
    second: Cell | Interval | None
    #: Speed-up in the second run over that in the first, for the baseline the speed; None where
    #: they are not comparable.
    speed: Interval | None
    verdict: RowVerdict


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs: what differs between them, and one row per arm and batch size."""

    comparison: Comparison
    #: First line of the answer of each run.
    answers: tuple[str, str]
    rows: tuple[ComparisonRow, ...]

    @property
    def generates_text(self) -> bool:
        """Whether both runs generated text, so that the rate is shown instead of the call time."""
        return all(
            cell.generation is not None
            for row in self.rows
            for cell in (row.first, row.second)
            if isinstance(cell, Cell)
        )

    @property
    def unit(self) -> str:
        """The unit of the figures."""
        if self.comparison.goodputs:
            return "req/s"
        return "tok/s" if self.generates_text else "ms"


def compare_runs(first: Answer, second: Answer) -> RunComparison:
    """Compare two runs and return a row for every arm of either run."""
    comparison = compare_answers(first, second, THRESHOLD)
    return RunComparison(
        comparison=comparison,
        answers=(headline(first), headline(second)),
        rows=(*_rows(first, second, comparison), *_server_rows(comparison)),
    )


def _rows(first: Answer, second: Answer, comparison: Comparison) -> Iterator[ComparisonRow]:
    changes: dict[tuple[str, int], tuple[Interval, SpeedVerdict]] = {
        (change.arm, change.batch_size): (change.speedup_ratio, change.verdict)
        for change in comparison.changes
    }
    for drift in comparison.drift:
        changes[BASELINE, drift.batch_size] = (drift.speed, drift.verdict)
    first_cells, second_cells = _cells(first), _cells(second)
    for key in dict.fromkeys([*first_cells, *second_cells]):
        arm, batch_size = key
        change = changes.get(key)
        verdict: RowVerdict = change[1] if change else "not-compared"
        if key not in first_cells:
            verdict = "only-in-second"
        elif key not in second_cells:
            verdict = "only-in-first"
        yield ComparisonRow(
            arm=arm,
            batch_size=batch_size,
            first=first_cells.get(key),
            second=second_cells.get(key),
            speed=change[0] if change else None,
            verdict=verdict,
        )


def _server_rows(comparison: Comparison) -> Iterator[ComparisonRow]:
    for change in comparison.goodputs:
        yield ComparisonRow(
            arm=change.arm,
            batch_size=None,
            first=change.before,
            second=change.after,
            speed=change.ratio,
            verdict=change.verdict,
        )


def _cells(document: Answer) -> dict[tuple[str, int], Cell]:
    return {(entry.arm, cell.batch_size): cell for entry in document.ranked for cell in entry.cells}
