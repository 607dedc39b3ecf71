"""Speed-ups with their intervals over a band of noise: at one shape, and by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import Cell, Interval
from advisor.domain.text import format_interval, format_share, format_speedup, write_speedup
from advisor.report import plots
from advisor.report.svg import Mark, Picture, circle, element, line, picture, text
from probes.shape import Shape

#: Height of a row, with the name above its marks, and where the marks begin.
ROW_HEIGHT, ROWS_LEFT = 44, 16
#: Intervals are cut off at this factor beyond the smallest and the largest speed-up, in rows and in
#: curves.
ROW_CUTOFF, CURVE_CUTOFF = 2, 1.3
#: Lower ones, which no reader compares, lie at the end of the axis of curves.
LOWEST_SPEEDUP = 0.25
#: Fewer shapes make no curve.
FEWEST_SHAPES = 2
#: Margin left of the smallest and right of the largest shape, as a factor.
SHAPE_MARGIN = 1.25


def speedup_rows(
    ranking: Sequence[RankedArm],
    shape: Shape,
    noise_floor: float | None,
    marks: Mapping[str, Mark],
    *,
    unfit: bool,
) -> Picture:
    """Draw the speed-ups at one shape; of an unfit machine only the intervals."""
    speedups = [
        (each.arm, cell.speedup) for each in ranking for cell in each.cells if cell.shape == shape
    ]
    caption = "times the baseline; 95 % intervals"
    if noise_floor:
        caption += f"; noise floor {format_share(noise_floor, 1)}"
    scale = _scale([speedup for _, speedup in speedups], caption)
    bottom, band = 10 + len(speedups) * ROW_HEIGHT, []
    if noise_floor:
        low, high = map(scale.to_pixels, (1 / (1 + noise_floor), 1 + noise_floor))
        band = [element("rect", "noise", x=low, y=4, width=high - low, height=bottom - 4)]
    parts = [
        *band,
        *plots.horizontal_axis(scale, 4, bottom),
        line(scale.to_pixels(1), 4, scale.to_pixels(1), bottom, "baseline"),
    ]
    for row, (arm, speedup) in enumerate(speedups):
        y, is_range = (row + 1) * ROW_HEIGHT - 6, unfit and speedup.low != speedup.high
        parts += _row(scale, arm, speedup, marks[arm], y, is_range=is_range)
    title = f"Speed-up over the baseline at {shape.description}"
    return picture(title, plots.WIDTH, bottom + plots.CAPTION_HEIGHT, parts)


def _scale(speedups: Sequence[Interval], caption: str) -> plots.Scale:
    """Return a scale for all values; a very wide interval is cut off, as it would squeeze them."""
    values = [1.0, *(speedup.value for speedup in speedups)]
    least, most = min(values) / ROW_CUTOFF, max(values) * ROW_CUTOFF
    bounds = [
        min(max(bound, least), most)
        for speedup in speedups
        for bound in (speedup.low, speedup.high)
        if bound is not None
    ]
    axis = plots.Axis(caption, is_logarithmic=False)
    return axis.scale([*bounds, *values], ROWS_LEFT, plots.WIDTH - 60)


def _row(
    scale: plots.Scale, arm: str, speedup: Interval, mark: Mark, y: float, *, is_range: bool
) -> list[Markup]:
    shown = f", {write_speedup(speedup, unfit=True)}" if is_range else ""
    parts = [text(0, y - 14, f"{mark.name}{shown}", "strong" if mark.is_advised else "label")]
    if speedup.low is not None and speedup.high is not None:
        low, high = map(scale.to_pixels, (speedup.low, speedup.high))
        parts.append(line(low, y, high, y, "interval"))
    if is_range:
        return parts
    title = f"{arm}: {format_interval(speedup, decimals=3)}"
    return [
        *parts,
        circle(scale.to_pixels(speedup.value), y, 5, "point", title),
        text(plots.WIDTH - 50, y + 4, format_speedup(speedup)),
    ]


#: How a size of each dimension is written; the first one that varies is the axis.
DIMENSIONS = {
    "input tokens": "{} input tokens",
    "output tokens": "{} output tokens",
    "batch size": "batch size {}",
}


class ShapeAxis(NamedTuple):
    """Shapes that differ in one dimension, and their values of it."""

    #: Name of the dimension, such as `batch size`.
    name: str
    #: What the shapes have in common, such as `batch size 4, 32 output tokens`; empty for nothing.
    others: str
    values: dict[Shape, int]


def shape_axes(shapes: Sequence[Shape]) -> list[ShapeAxis]:
    """Return the axes that have all shapes: lengths if there are several, else batch sizes."""
    sizes = [
        {
            name: size
            for name, size in zip(
                DIMENSIONS, (each.input_tokens, each.output_tokens, each.batch_size), strict=True
            )
            if size is not None
        }
        for each in shapes
    ]
    varying = [name for name in DIMENSIONS if len({each.get(name) for each in sizes}) > 1]
    axes: dict[str, dict[Shape, int]] = {}
    for shape, each in zip(shapes, sizes, strict=True):
        others = (
            DIMENSIONS[name].format(size) for name, size in each.items() if name != varying[0]
        )
        if varying:
            axes.setdefault(", ".join(others), {})[shape] = each[varying[0]]
    return [ShapeAxis(varying[0], others, values) for others, values in axes.items()]


def speedup_curves(
    ranking: Sequence[RankedArm],
    shapes: Sequence[Shape],
    noise_floors: Mapping[Shape, float | None],
    marks: Mapping[str, Mark],
) -> tuple[Picture, ...]:
    """Return speed-ups over a band of noise, by length or batch size; none for a single shape."""
    return tuple(
        _curves(ranking, axis, noise_floors, marks)
        for axis in shape_axes(shapes)
        if len(axis.values) >= FEWEST_SHAPES
    )


def _curves(
    ranking: Sequence[RankedArm],
    axis: ShapeAxis,
    noise_floors: Mapping[Shape, float | None],
    marks: Mapping[str, Mark],
) -> Picture:
    drawn = [
        (each.arm, [cell for cell in each.cells if cell.shape in axis.values]) for each in ranking
    ]
    series = [
        plots.Series(
            marks[arm], tuple(_point(arm, cell, axis.values[cell.shape]) for cell in cells)
        )
        for arm, cells in drawn
        if cells
    ]
    noise = [
        (float(value), 1 + (noise_floors.get(shape) or 0.0)) for shape, value in axis.values.items()
    ]
    band = (*noise, *((value, 1 / ratio) for value, ratio in reversed(noise)))
    title = f"Speed-up over the baseline by {axis.name}"
    if axis.others:
        title += f", {axis.others}"
    heights = [max(point.y, LOWEST_SPEEDUP) for each in series for point in each.points]
    sizes = [*axis.values.values()]
    across = plots.Axis(
        f"{axis.name}; bars are 95 % intervals",
        ticks=tuple(sizes),
        low=min(sizes) / SHAPE_MARGIN,
        high=max(sizes) * SHAPE_MARGIN,
    )
    upward = plots.Axis(
        "times the baseline's speed",
        low=min(heights) / CURVE_CUTOFF,
        high=max(heights) * CURVE_CUTOFF,
    )
    return plots.plot(title, series, across, upward, [plots.Guide("noise", band, is_area=True)])


def _point(arm: str, cell: Cell, value: int) -> plots.Point:
    title = f"{arm}, batch {cell.shape}: {format_interval(cell.speedup, decimals=3)}"
    return plots.Point(value, cell.speedup.value, cell.speedup.low, cell.speedup.high, title)
