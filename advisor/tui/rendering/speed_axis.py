"""Draw speed-ups with their intervals on one logarithmic axis, with the baseline at 1x."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from advisor.domain.interval import Interval

VALUE, END, LOWER_END, LINE = (
    "\N{BLACK CIRCLE}",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}",
)
BASELINE = "\N{BOX DRAWINGS LIGHT VERTICAL}"
BASELINE_IN_INTERVAL = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"
BELOW, ABOVE = "\N{BLACK LEFT-POINTING TRIANGLE}", "\N{BLACK RIGHT-POINTING TRIANGLE}"
#: The axis starts here at the latest, and shows no slower arms than these: the lower limit is for
#: axes that reach `FAR`.
LATEST_START, LOWEST_START, LOWEST_FAR_START, FAR = 0.9, 0.5, 0.25, 4.0
#: The axis ends here at the earliest.
EARLIEST_END = 1.25
MARGIN = 1.03
#: Labels in the order in which they get their place.
TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 0.5, 0.25, 1.5, 3, 1.25, 6, 12, 1.1, 0.75)


@dataclasses.dataclass(frozen=True)
class SpeedAxis:
    """A logarithmic axis of speed-ups over a number of terminal cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def for_speedups(cls, speedups: Iterable[Interval], cells: int) -> SpeedAxis:
        """Return the axis that holds all intervals but those of very slow arms."""
        bounds = [
            bound
            for speedup in speedups
            for bound in (speedup.low or speedup.value, speedup.high or speedup.value)
            if math.isfinite(bound) and bound > 0
        ]
        high = max([EARLIEST_END, *bounds]) * MARGIN
        lowest = LOWEST_FAR_START if high > FAR else LOWEST_START
        return cls(max(min([LATEST_START, *bounds]) / MARGIN, lowest), high, cells)

    def place(self, speedup: float) -> int:
        """Return the cell of a speed-up; the first or last for one beyond the axis."""
        if not self.low < speedup < self.high:
            return self.cells - 1 if speedup >= self.high else 0
        share = math.log(speedup / self.low) / math.log(self.high / self.low)
        return round(share * (self.cells - 1))

    def bar(self, speedup: Interval | None) -> str:
        """Return the interval and its value, and the line of the baseline."""
        cells = [" "] * self.cells
        one = self.place(1.0)
        cells[one] = BASELINE
        if speedup is None:
            return "".join(cells)
        if speedup.low is not None and speedup.high is not None:
            first, last = self.place(speedup.low), self.place(speedup.high)
            for cell in range(first, last + 1):
                cells[cell] = BASELINE_IN_INTERVAL if cell == one else LINE
            if last > first:
                cells[first], cells[last] = LOWER_END, END
        cells[self.place(speedup.value)] = (
            BELOW if speedup.value < self.low else ABOVE if speedup.value > self.high else VALUE
        )
        return "".join(cells)

    def labels(self) -> str:
        """Return the line with the labels of the axis."""
        line = [" "] * self.cells
        for tick in TICKS:
            label = f"{tick:g}x"
            if not self.low <= tick <= self.high:
                continue
            start = min(self.place(tick), self.cells - len(label))
            around = line[max(start - 1, 0) : start + len(label) + 1]
            if start >= 0 and not "".join(around).strip():
                line[start : start + len(label)] = label
        return "".join(line)
