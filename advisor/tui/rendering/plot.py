"""Plot points with intervals as text; a legend names the marks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

#: Least rows and columns in which anything is recognizable.
MIN_ROWS, MIN_COLUMNS = 4, 16
Y_LABEL_WIDTH = 8
LEGEND_SHARE, MAX_LEGEND_WIDTH = 3, 46
INTERVAL = "\N{BOX DRAWINGS LIGHT VERTICAL}"
CORNER, AXIS = (
    "\N{BOX DRAWINGS LIGHT UP AND RIGHT}",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}",
)
#: A mark that finds its cell taken moves by at most so many cells.
MAX_SHIFT = 6
#: Ticks of a logarithmic axis within a decade; where they do not fit, only the decades.
FINEST_TICKS, FINE_TICKS, DECADES = (1, 1.2, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1,)


@dataclasses.dataclass(frozen=True)
class Point:
    """A point with the interval of its vertical value, if it is known."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Series:
    """Points with one mark; the legend shows the label."""

    mark: str
    label: str
    points: tuple[Point, ...]


@dataclasses.dataclass(frozen=True)
class Plot:
    """A picture with two logarithmic axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    #: Ticks of the horizontal axis; empty for those of a logarithmic axis.
    x_ticks: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Axis:
    """A logarithmic axis over a number of cells."""

    low: float
    high: float
    cells: int

    @classmethod
    def around(cls, values: Iterable[float], cells: int) -> Axis:
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


def plot_lines(plot: Plot, width: int, height: int) -> list[str]:
    """Return the lines of a plot, or none where there is no room or nothing to show."""
    legend_width = min(width // LEGEND_SHARE, MAX_LEGEND_WIDTH)
    columns, rows = width - Y_LABEL_WIDTH - legend_width - 2, height - 4
    points = [point for series in plot.series for point in series.points]
    if not points or columns < MIN_COLUMNS or rows < MIN_ROWS:
        return []
    x_axis = Axis.around((point.x for point in points), columns)
    y_axis = Axis.around(_heights(points), rows)
    grid = _draw(plot.series, x_axis, y_axis)
    legend = [f"{series.mark} {series.label}"[:legend_width] for series in plot.series]
    labels = {y_axis.place(value): _format(value) for value in y_axis.ticks(rows // 2)}
    lines = [plot.title, f"{plot.y_label:>{Y_LABEL_WIDTH}}"]
    for row in range(rows):
        label = labels.get(rows - 1 - row, "")
        named = legend[row] if row < len(legend) else ""
        lines.append(
            f"{label:>{Y_LABEL_WIDTH - 1}} {INTERVAL}{''.join(grid[row])} {named}".rstrip()
        )
    lines.append(" " * Y_LABEL_WIDTH + CORNER + AXIS * columns)
    lines.append(" " * (Y_LABEL_WIDTH + 1) + _tick_line(plot, x_axis))
    return lines


def _heights(points: Sequence[Point]) -> list[float]:
    return [
        value for point in points for value in (point.y, point.low, point.high) if value is not None
    ]


def _draw(series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> list[list[str]]:
    """Return the rows of cells, from the top; the first series are drawn last."""
    grid = [[" "] * x_axis.cells for _ in range(y_axis.cells)]

    def row_of(value: float) -> int:
        return y_axis.cells - 1 - y_axis.place(value)

    for each in series:
        for point in each.points:
            column = x_axis.place(point.x)
            if point.low is not None and point.high is not None:
                for row in range(row_of(point.high), row_of(point.low) + 1):
                    grid[row][column] = INTERVAL
    taken: set[tuple[int, int]] = set()
    for each in series:
        for point in each.points:
            row, column = row_of(point.y), x_axis.place(point.x)
            free = next(
                (
                    place
                    for shift in range(MAX_SHIFT)
                    for place in (column + shift, column - shift)
                    if 0 <= place < x_axis.cells and (row, place) not in taken
                ),
                None,
            )
            if free is not None:
                taken.add((row, free))
                grid[row][free] = each.mark
    return grid


def _tick_line(plot: Plot, axis: Axis) -> str:
    line = [" "] * (axis.cells + len(plot.x_label) + 2)
    for value in plot.x_ticks or axis.ticks(axis.cells // 8):
        label = _format(value)
        start = max(min(axis.place(value), axis.cells - len(label)), 0)
        if not "".join(line[max(start - 1, 0) : start + len(label) + 1]).strip():
            line[start : start + len(label)] = label
    line[axis.cells + 1 : axis.cells + 1 + len(plot.x_label)] = plot.x_label
    return "".join(line).rstrip()


def _format(value: float) -> str:
    """Return a short text of a number, such as 0.5, 20 or 3M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scale = 1e3 if unit == "k" else size
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
