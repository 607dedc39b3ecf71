"""Draw speed-ups and their intervals in cells of a terminal."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import ClassVar

from advisor.domain.interval import Interval

VERTICAL, HORIZONTAL = "\N{BOX DRAWINGS LIGHT VERTICAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
CROSS = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"
LOWER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}"
UPPER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
VALUE = "\N{BLACK CIRCLE}"
BELOW, ABOVE = "\N{BLACK LEFT-POINTING TRIANGLE}", "\N{BLACK RIGHT-POINTING TRIANGLE}"


@dataclasses.dataclass(frozen=True)
class SpeedAxis:
    """A logarithmic axis of speed-ups over a number of cells, with the baseline at 1x."""

    low: float
    high: float
    cells: int

    #: The axis starts here at the latest, and shows no slower arms than these: the lower limit is
    #: for axes that reach `FAR`.
    LATEST_START, LOWEST_START, LOWEST_FAR_START, FAR = 0.9, 0.5, 0.25, 4.0
    #: The axis ends here at the earliest.
    EARLIEST_END, MARGIN = 1.25, 1.03
    #: In the order in which they get their place.
    TICKS: ClassVar[tuple[float, ...]] = (
        *(1, 2, 4, 8, 16, 32, 64, 128),
        *(0.5, 0.25, 1.5, 3, 1.25, 6, 12, 1.1, 0.75),
    )

    @classmethod
    def for_speedups(cls, speedups: Iterable[Interval], cells: int) -> SpeedAxis:
        """Return the axis that holds all intervals but those of very slow arms."""
        bounds = [
            bound
            for speedup in speedups
            for bound in (speedup.low or speedup.value, speedup.high or speedup.value)
            if math.isfinite(bound) and bound > 0
        ]
        high = max([cls.EARLIEST_END, *bounds]) * cls.MARGIN
        lowest = cls.LOWEST_FAR_START if high > cls.FAR else cls.LOWEST_START
        return cls(max(min([cls.LATEST_START, *bounds]) / cls.MARGIN, lowest), high, cells)

    def place(self, value: float) -> int:
        """Return the cell of a value; the first or last for one beyond the axis."""
        if not self.low < value < self.high:
            return self.cells - 1 if value >= self.high else 0
        return round(math.log(value / self.low) / math.log(self.high / self.low) * (self.cells - 1))

    def bar(self, speedup: Interval) -> str:
        """Return the interval and its value, and the line of the baseline."""
        cells = [" "] * self.cells
        one = self.place(1.0)
        cells[one] = VERTICAL
        if speedup.low is not None and speedup.high is not None:
            first, last = self.place(speedup.low), self.place(speedup.high)
            for cell in range(first, last + 1):
                cells[cell] = CROSS if cell == one else HORIZONTAL
            if last > first:
                cells[first], cells[last] = LOWER_END, UPPER_END
        cells[self.place(speedup.value)] = (
            BELOW if speedup.value < self.low else ABOVE if speedup.value > self.high else VALUE
        )
        return "".join(cells)

    def labels(self) -> str:
        """Return a line with the ticks at their values, without those that would touch another."""
        line = [" "] * self.cells
        for tick in self.TICKS:
            label = f"{tick:g}x"
            start = max(min(self.place(tick), self.cells - len(label)), 0)
            around = line[max(start - 1, 0) : start + len(label) + 1]
            is_inside = self.low <= tick <= self.high and len(label) <= self.cells
            if is_inside and not "".join(around).strip():
                line[start : start + len(label)] = label
        return "".join(line)
