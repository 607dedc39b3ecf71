"""Two runs as rows: the comparison is that of `p3-advisor compare`, here with the times of both beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.domain.measurement import Cell, Interval
from advisor.report.comparison import Comparison, compare
from advisor.report.document import RunDocument

#: Speeds that differ by no more are the same, as with the command.
THRESHOLD = 0.05
ONLY_FIRST, ONLY_SECOND, NOT_COMPARED = "only in A", "only in B", "not compared"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size in both runs; null where a run does not have it."""

    arm: str
    batch_size: int
    first: Cell | None
    second: Cell | None
    #: Times as fast in the second run; null where that may not be said.
    speed: Interval | None
    verdict: str


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Both runs."""

    comparison: Comparison
    rows: tuple[Row, ...]

    @property
    def generates(self) -> bool:
        """Whether both runs generated text, of which the rate is looked at rather than the time of a call."""
        return all(
            cell.generation is not None
            for row in self.rows
            for cell in (row.first, row.second)
            if cell is not None
        )


def lay_side_by_side(first: RunDocument, second: RunDocument) -> Sides:
    """Compare two runs, and give every arm of either its rows."""
    comparison = compare(first, second, THRESHOLD)
    return Sides(comparison=comparison, rows=tuple(_rows(first, second, comparison)))


def _rows(first: RunDocument, second: RunDocument, comparison: Comparison) -> Iterator[Row]:
    changes = {(change.arm, change.batch_size): change for change in comparison.changes}
    cells = [
        {(entry.arm, cell.batch_size): cell for entry in side.workflows for cell in entry.cells}
        for side in (first, second)
    ]
    for arm, size in dict.fromkeys([*cells[0], *cells[1]]):
        mine, other, change = (
            cells[0].get((arm, size)),
            cells[1].get((arm, size)),
            changes.get((arm, size)),
        )
        verdict = (
            ONLY_SECOND
            if mine is None
            else ONLY_FIRST
            if other is None
            else change.judgement
            if change
            else NOT_COMPARED
        )
        yield Row(
            arm=arm,
            batch_size=size,
            first=mine,
            second=other,
            speed=change.speed if change else None,
            verdict=verdict,
        )
