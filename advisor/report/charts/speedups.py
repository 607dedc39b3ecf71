"""Speed-ups with their intervals over a band of noise: at one batch size, and by shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from advisor.domain.answer import RankedArm
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, line_plot
from advisor.report.charts.scales import Axis, Scale, horizontal_axis, scale_around
from advisor.report.charts.svg import (
    Drawing,
    Layout,
    Picture,
    circle,
    line,
    picture_of_rows,
    rectangle,
    row_name,
    text,
)
from advisor.system.number_format import format_interval, format_share, format_speedup

#: Intervals are cut off at this factor beyond the smallest and the largest speed-up, in rows and in
#: curves.
ROW_CUTOFF, CURVE_CUTOFF = 2, 1.3
#: Lower ones, which no reader compares, lie at the end of the axis of curves.
LOWEST_SPEEDUP = 0.25
#: Fewer shapes make no curve.
FEWEST_SHAPES = 2
#: Margin left of the smallest and right of the largest shape, as a factor.
SHAPE_MARGIN = 1.25


def speedup_chart(
    ranked: Sequence[RankedArm],
    batch_size: int,
    noise_floor: float | None,
    marks: Mapping[str, Mark],
) -> Picture:
    """Return the speed-ups at one batch size with their intervals over a band of noise."""
    speedups = [
        (entry.arm, cell.speedup)
        for entry in ranked
        for cell in entry.cells
        if cell.batch_size == batch_size
    ]
    caption = "times the baseline; 95 % intervals"
    if noise_floor:
        caption += f"; noise floor {format_share(noise_floor, 1)}"

    def draw(layout: Layout) -> Drawing:
        scale = _scale([speedup for _, speedup in speedups], layout)
        bottom = 10 + len(speedups) * layout.row_height
        parts = _noise_band(scale, noise_floor, bottom) if noise_floor else []
        parts += horizontal_axis(scale, 4, bottom, caption)
        parts.append(line(scale.to_pixels(1), 4, scale.to_pixels(1), bottom, "baseline"))
        for row, (arm, speedup) in enumerate(speedups):
            y = (row + 1) * layout.row_height - 6
            parts += _row(scale, arm, speedup, marks[arm], y, layout)
        return bottom + 42, parts

    return picture_of_rows(f"Speed-up over the baseline at batch size {batch_size}", draw)


def _scale(speedups: Sequence[Interval], layout: Layout) -> Scale:
    """Return a scale for all values; a very wide interval is cut off, as it would squeeze them."""
    values = [1.0, *(speedup.value for speedup in speedups)]
    least, most = min(values) / ROW_CUTOFF, max(values) * ROW_CUTOFF
    bounds = [
        min(max(bound, least), most)
        for speedup in speedups
        for bound in (speedup.low, speedup.high)
        if bound is not None
    ]
    return scale_around([*bounds, *values], layout.start, layout.width - 60)


def _noise_band(scale: Scale, noise_floor: float, bottom: float) -> list[Markup]:
    low, high = (
        scale.to_pixels(scale.clamp(end)) for end in (1 / (1 + noise_floor), 1 + noise_floor)
    )
    return [rectangle(low, 4, high - low, bottom - 4, "noise")]


def _row(
    scale: Scale, arm: str, speedup: Interval, mark: Mark, y: float, layout: Layout
) -> list[Markup]:
    parts = [row_name(layout, y, mark.name, is_strong=mark.is_advised)]
    if speedup.low is not None and speedup.high is not None:
        low, high = (scale.to_pixels(scale.clamp(each)) for each in (speedup.low, speedup.high))
        parts.append(line(low, y, high, y, "interval"))
    title = f"{arm}: {format_interval(speedup, decimals=3)}"
    return [
        *parts,
        circle(scale.to_pixels(speedup.value), y, 5, "point", title),
        text(layout.width - 50, y + 4, format_speedup(speedup)),
    ]


def speedups_chart(
    ranked: Sequence[RankedArm],
    sizes: Sequence[int],
    noise_floors: Mapping[int, float | None],
    marks: Mapping[str, Mark],
) -> Picture | None:
    """Return the speed-up by batch size over a band of noise; None with a single batch size."""
    series = [
        Series(
            marks[entry.arm],
            tuple(_point(entry.arm, cell) for cell in entry.cells),
            format_speedup(entry.cells[-1].speedup),
        )
        for entry in ranked
        if entry.cells
    ]
    noise = [(float(size), 1 + (noise_floors.get(size) or 0.0)) for size in sizes]
    band = (*noise, *((size, 1 / ratio) for size, ratio in reversed(noise)))
    title = "Speed-up over the baseline by batch size"
    return speedup_curves(title, series, "batch size", sizes, [Guide("noise", band, is_area=True)])


def _point(arm: str, cell: Cell) -> Point:
    title = f"{arm}, batch {cell.batch_size}: {format_interval(cell.speedup, decimals=3)}"
    return Point(cell.batch_size, cell.speedup.value, cell.speedup.low, cell.speedup.high, title)


def speedup_curves(
    title: str,
    series: Sequence[Series],
    dimension: str,
    shapes: Sequence[int],
    guides: Sequence[Guide] = (),
) -> Picture | None:
    """Return speed-ups by the values `shapes` of a dimension, or None for fewer than two."""
    if len(shapes) < FEWEST_SHAPES:
        return None
    values = [max(point.y, LOWEST_SPEEDUP) for each in series for point in each.points]
    across = Axis(
        f"{dimension}; bars are 95 % intervals",
        ticks=tuple(shapes),
        low=min(shapes) / SHAPE_MARGIN,
        high=max(shapes) * SHAPE_MARGIN,
    )
    upward = Axis(
        "times the baseline's speed",
        low=min(values) / CURVE_CUTOFF,
        high=max(values) * CURVE_CUTOFF,
    )
    return line_plot(title, series, across, upward, guides)
