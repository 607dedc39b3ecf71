"""Speed against build time: each arm stands where it belongs, by its rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

LEAST_SECONDS = 0.1


class Plane(Widget):
    """The plane."""

    DEFAULT_CSS = "Plane { width: 44; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._points: list[tuple[str, float, float]] = []

    def show(self, points: Sequence[tuple[str, float, float]]) -> None:
        """Show these marks at seconds of build and speed-up."""
        self._points = list(points)
        self.refresh()

    def render(self) -> RenderResult:
        """Draw axes and marks."""
        return Text(
            "\n".join(draw(self._points, self.size.width - 2, self.size.height)), no_wrap=True
        )


def draw(points: Sequence[tuple[str, float, float]], width: int, height: int) -> list[str]:
    """Return the lines of the plane: speed upwards, seconds of build to the right on a logarithmic scale."""
    rows, columns = height - 3, width - 8
    if not points or rows < 3 or columns < 10:  # noqa: PLR2004 - too small to show anything
        return []
    across = [math.log10(max(seconds, LEAST_SECONDS)) for _, seconds, _ in points]
    low, high = min(across), max(across)
    slow, fast = (
        min(1.0, *(speed for *_, speed in points)),
        max(1.0, *(speed for *_, speed in points)),
    )
    grid = [[" "] * columns for _ in range(rows)]
    # Best ranks last, so that they stay readable where arms lie on top of each other.
    for (mark, _, speed), place in reversed(list(zip(points, across, strict=True))):
        column = round((place - low) / (high - low or 1) * (columns - len(mark)))
        row = rows - 1 - round((speed - slow) / (fast - slow or 1) * (rows - 1))
        grid[row][column : column + len(mark)] = mark
    labels = {0: f"{fast:.2f}x", rows - 1: f"{slow:.2f}x"}
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
