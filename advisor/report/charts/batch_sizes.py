"""Throughput and latency of each arm against the batch size, on the same horizontal axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import Cell
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, line_plot
from advisor.report.charts.scales import Axis
from advisor.report.charts.svg import Picture
from advisor.system.number_format import (
    format_call_milliseconds,
    format_interval,
    format_number,
    format_speedup,
)

MILLI = 1e3
#: Fewer batch sizes make no curve.
FEWEST_SIZES = 2
#: Margin left of the smallest and right of the largest batch size, as a factor.
MARGIN = 1.25
#: Intervals of speed-ups are cut off at this factor beyond the outermost speed-ups.
INTERVAL_CUTOFF = 1.3
#: Lower ones, which no reader compares, lie at the end of the axis.
LOWEST_SPEEDUP = 0.25


def throughput_chart(
    ranked: Sequence[RankedArm], sizes: Sequence[int], marks: Mapping[str, Mark]
) -> Picture | None:
    """Return the throughput by batch size; None with a single batch size."""
    units = {cell.throughput.unit for entry in ranked for cell in entry.cells}
    if len(sizes) < FEWEST_SIZES or len(units) != 1:
        return None
    series = [
        Series(marks[entry.arm], tuple(_throughput(entry.arm, cell) for cell in entry.cells))
        for entry in ranked
        if entry.cells
    ]
    unit = units.pop()
    return line_plot(f"Throughput by batch size, in {unit}", series, _across(sizes), Axis(unit))


def speedups_chart(
    ranked: Sequence[RankedArm],
    sizes: Sequence[int],
    noise_floors: Mapping[int, float | None],
    marks: Mapping[str, Mark],
) -> Picture | None:
    """Return the speed-up by batch size over a band of noise; None with a single batch size."""
    if len(sizes) < FEWEST_SIZES:
        return None
    series = [
        Series(
            marks[entry.arm],
            tuple(_speedup(entry.arm, cell) for cell in entry.cells),
            format_speedup(entry.cells[-1].speedup),
        )
        for entry in ranked
        if entry.cells
    ]
    noise = [(float(size), 1 + (noise_floors.get(size) or 0.0)) for size in sizes]
    band = (*noise, *((size, 1 / ratio) for size, ratio in reversed(noise)))
    values = [max(point.y, LOWEST_SPEEDUP) for each in series for point in each.points]
    return line_plot(
        "Speed-up over the baseline by batch size",
        series,
        _across(sizes),
        Axis(
            "times the baseline's speed",
            low=min(values) / INTERVAL_CUTOFF,
            high=max(values) * INTERVAL_CUTOFF,
        ),
        guides=[Guide("noise", band, is_area=True)],
    )


def _speedup(arm: str, cell: Cell) -> Point:
    title = f"{arm}, batch {cell.batch_size}: {format_interval(cell.speedup, decimals=3)}"
    return Point(cell.batch_size, cell.speedup.value, cell.speedup.low, cell.speedup.high, title)


def _throughput(arm: str, cell: Cell) -> Point:
    """Return a point whose interval is that of the calls' seconds."""
    value, seconds = cell.throughput.value, cell.seconds
    title = (
        f"{arm}, batch {cell.batch_size}: {format_number(value)} {cell.throughput.unit}, "
        f"speed-up {format_interval(cell.speedup)}"
    )
    if seconds.low is None or seconds.high is None:
        return Point(cell.batch_size, value, title=title)
    low, high = (value * seconds.median / bound for bound in (seconds.high, seconds.low))
    return Point(cell.batch_size, value, low, high, title)


def latency_chart(
    ranked: Sequence[RankedArm], sizes: Sequence[int], marks: Mapping[str, Mark]
) -> Picture | None:
    """Return the milliseconds of a call by batch size; None with a single batch size."""
    if len(sizes) < FEWEST_SIZES:
        return None
    series = [
        Series(marks[entry.arm], tuple(_latency(entry.arm, cell) for cell in entry.cells))
        for entry in ranked
        if entry.cells
    ]
    title = "Milliseconds of a call by batch size"
    return line_plot(title, series, _across(sizes), Axis("ms per call"))


def _latency(arm: str, cell: Cell) -> Point:
    seconds = cell.seconds
    title = f"{arm}, batch {cell.batch_size}: {format_call_milliseconds(seconds)} ms"
    low, high = (None if bound is None else bound * MILLI for bound in (seconds.low, seconds.high))
    return Point(cell.batch_size, seconds.median * MILLI, low, high, title)


def _across(sizes: Sequence[int]) -> Axis:
    return Axis(
        "batch size; bars are 95 % intervals",
        ticks=tuple(sizes),
        low=min(sizes) / MARGIN,
        high=max(sizes) * MARGIN,
    )
