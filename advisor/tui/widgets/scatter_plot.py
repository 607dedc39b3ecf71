"""Plot the speed-up of each arm over its build time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

#: Shorter builds are drawn at this time, because the axis is logarithmic.
MIN_SECONDS = 0.1


class ScatterPlot(Widget):
    """A scatter plot; each point is marked with the rank of its arm."""

    DEFAULT_CSS = "ScatterPlot { width: 44; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._points: list[tuple[str, float, float]] = []

    def show(self, points: Sequence[tuple[str, float, float]]) -> None:
        """Show points, each a mark, the seconds of the build, and the speed-up."""
        self._points = list(points)
        self.refresh()

    def render(self) -> RenderResult:
        lines = plot_lines(self._points, self.size.width - 2, self.size.height)
        return Text("\n".join(lines), no_wrap=True)


def plot_lines(points: Sequence[tuple[str, float, float]], width: int, height: int) -> list[str]:
    """Return the lines of a plot.

    The vertical axis is the speed-up, the horizontal axis the seconds of the build on a logarithmic
    scale.
    """
    rows, columns = height - 3, width - 8
    if not points or rows < 3 or columns < 10:  # noqa: PLR2004 - too small to show anything
        return []
    exponents = [math.log10(max(seconds, MIN_SECONDS)) for _, seconds, _ in points]
    low, high = min(exponents), max(exponents)
    speedups = [1.0, *(speedup for *_, speedup in points)]
    slowest, fastest = min(speedups), max(speedups)
    grid = [[" "] * columns for _ in range(rows)]
    # The best ranks are drawn last, so that they cover others at the same position.
    for (mark, _, speedup), exponent in reversed(list(zip(points, exponents, strict=True))):
        column = round((exponent - low) / (high - low or 1) * (columns - len(mark)))
        row = rows - 1 - round((speedup - slowest) / (fastest - slowest or 1) * (rows - 1))
        grid[row][column : column + len(mark)] = mark
    labels = {0: f"{fastest:.2f}x", rows - 1: f"{slowest:.2f}x"}
    lines = ["  speed-up by rank, over build time"]
    lines += [
        f"{labels.get(number, ''):>6} \N{BOX DRAWINGS LIGHT VERTICAL}{''.join(row)}"
        for number, row in enumerate(grid)
    ]
    lines.append(
        " " * 7
        + "\N{BOX DRAWINGS LIGHT UP AND RIGHT}"
        + "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * columns
    )
    left, right = f"{max(10**low, 0):.3g} s", f"{10**high:.3g} s"
    lines.append(" " * 8 + left + " " * max(columns - len(left) - len(right), 1) + right)
    return lines
