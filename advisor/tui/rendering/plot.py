"""Plots as text, with logarithmic axes: points with intervals, and one interval on a line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from advisor.domain.interval import Interval

#: Least rows and columns in which anything is recognizable.
MIN_ROWS, MIN_COLUMNS = 4, 16
Y_LABEL_WIDTH = 8
LEGEND_SHARE, MAX_LEGEND_WIDTH = 3, 46
#: A mark that finds its cell taken moves by at most so many cells.
MAX_SHIFT = 6
VERTICAL, HORIZONTAL = "\N{BOX DRAWINGS LIGHT VERTICAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
CORNER = "\N{BOX DRAWINGS LIGHT UP AND RIGHT}"
CROSS = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"
LOWER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}"
UPPER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
VALUE = "\N{BLACK CIRCLE}"
BELOW, ABOVE = "\N{BLACK LEFT-POINTING TRIANGLE}", "\N{BLACK RIGHT-POINTING TRIANGLE}"
#: Ticks of an axis within a decade; where they do not fit, only the decades.
FINEST_TICKS, FINE_TICKS, DECADES = (1, 1.2, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1,)


@dataclasses.dataclass(frozen=True)
class Axis:
    """A logarithmic axis over a number of cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def around(cls, values: Iterable[float], cells: int) -> Axis:
        """Return the axis that holds all positive, finite values."""
        found = [value for value in values if value > 0 and math.isfinite(value)]
        low, high = min(found, default=1.0), max(found, default=1.0)
        if high / low < 1.5:  # noqa: PLR2004 - a narrower axis would enlarge noise
            low, high = low / 1.25, high * 1.25
        return cls(low, high, cells)

    def place(self, value: float) -> int:
        """Return the cell of a value; the first or last for one beyond the axis."""
        if not self.low < value < self.high:
            return self.cells - 1 if value >= self.high else 0
        return round(math.log(value / self.low) / math.log(self.high / self.low) * (self.cells - 1))

    def ticks(self, most: int) -> list[float]:
        """Return at most so many round values on the axis."""
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        for steps in (FINEST_TICKS, FINE_TICKS, DECADES):
            values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            inside = [value for value in values if self.low <= value <= self.high]
            if 1 < len(inside) <= most:
                return inside
        return [self.low, self.high]

    def label(self, labels: Iterable[tuple[float, str]]) -> str:
        """Return a line with the labels at their values; one that would touch another is left out.

        The first labels get their place first.
        """
        line = [" "] * self.cells
        for value, label in labels:
            start = max(min(self.place(value), self.cells - len(label)), 0)
            around = line[max(start - 1, 0) : start + len(label) + 1]
            if len(label) <= self.cells and not "".join(around).strip():
                line[start : start + len(label)] = label
        return "".join(line)


class SpeedAxis(Axis):
    """An axis of speed-ups, with the baseline at 1x."""

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

    def bar(self, speedup: Interval | None) -> str:
        """Return the interval and its value, and the line of the baseline."""
        cells = [" "] * self.cells
        one = self.place(1.0)
        cells[one] = VERTICAL
        if speedup is None:
            return "".join(cells)
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
        inside = (tick for tick in self.TICKS if self.low <= tick <= self.high)
        return self.label((tick, f"{tick:g}x") for tick in inside)


@dataclasses.dataclass(frozen=True)
class Series:
    """Points with one mark, which the legend names; a point is its place and its interval."""

    mark: str
    label: str
    points: tuple[tuple[float, Interval], ...]


@dataclasses.dataclass(frozen=True)
class Plot:
    """A picture with two logarithmic axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    #: Ticks of the horizontal axis; empty for those of a logarithmic axis.
    x_ticks: tuple[float, ...] = ()


def plot_lines(plot: Plot, width: int, height: int) -> list[str]:
    """Return the lines of a plot, or none where there is no room or nothing to show."""
    legend_width = min(width // LEGEND_SHARE, MAX_LEGEND_WIDTH)
    columns, rows = width - Y_LABEL_WIDTH - legend_width - 2, height - 4
    points = [point for series in plot.series for point in series.points]
    if not points or columns < MIN_COLUMNS or rows < MIN_ROWS:
        return []
    x_axis = Axis.around((x for x, _ in points), columns)
    heights = [each for _, y in points for each in (y.value, y.low, y.high) if each is not None]
    y_axis = Axis.around(heights, rows)
    grid = _draw(plot.series, x_axis, y_axis)
    labels = {y_axis.place(value): _format(value) for value in y_axis.ticks(rows // 2)}
    lines = [plot.title, f"{plot.y_label:>{Y_LABEL_WIDTH}}"]
    legend = [f"{series.mark} {series.label}"[:legend_width] for series in plot.series]
    for row in range(rows):
        label = labels.get(rows - 1 - row, "")
        named = legend[row] if row < len(legend) else ""
        lines.append(
            f"{label:>{Y_LABEL_WIDTH - 1}} {VERTICAL}{''.join(grid[row])} {named}".rstrip()
        )
    ticks = x_axis.label((x, _format(x)) for x in plot.x_ticks or x_axis.ticks(columns // 8))
    lines.append(" " * Y_LABEL_WIDTH + CORNER + HORIZONTAL * columns)
    lines.append(f"{'':{Y_LABEL_WIDTH + 1}}{ticks} {plot.x_label}")
    return lines


def _draw(series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> list[list[str]]:
    """Return the rows of cells, from the top: the intervals, and over them the marks."""
    grid = [[" "] * x_axis.cells for _ in range(y_axis.cells)]

    def row_of(value: float) -> int:
        return y_axis.cells - 1 - y_axis.place(value)

    for each in series:
        for x, y in each.points:
            if y.low is not None and y.high is not None:
                for row in range(row_of(y.high), row_of(y.low) + 1):
                    grid[row][x_axis.place(x)] = VERTICAL
    taken: set[tuple[int, int]] = set()
    shifts = [shift for size in range(MAX_SHIFT) for shift in (size, -size)]
    for each in series:
        for x, y in each.points:
            row, column = row_of(y.value), x_axis.place(x)
            places = [column + shift for shift in shifts if 0 <= column + shift < x_axis.cells]
            free = next((place for place in places if (row, place) not in taken), None)
            if free is not None:
                taken.add((row, free))
                grid[row][free] = each.mark
    return grid


def _format(value: float) -> str:
    """Return a short text of a number, such as 0.5, 20 or 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scale = 1e3 if unit == "k" else size
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
