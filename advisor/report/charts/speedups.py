"""Speed-ups at one batch size with their intervals over a band of noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from advisor.domain.interval import Interval
from advisor.report.charts.marks import Mark
from advisor.report.charts.scales import Scale, horizontal_axis, scale_around
from advisor.report.charts.svg import (
    NAME_COLUMN_WIDTH,
    ROW_HEIGHT,
    WIDTH,
    Picture,
    circle,
    line,
    picture,
    rectangle,
    text,
)
from advisor.report.documents.document import WorkflowEntry
from advisor.system.number_format import format_interval, format_share, format_speedup

#: Intervals are cut off at this factor beyond the smallest and the largest speed-up.
INTERVAL_CUTOFF = 2


def speedup_chart(
    ranked: Sequence[WorkflowEntry],
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
    scale = _scale([speedup for _, speedup in speedups])
    bottom = 10 + len(speedups) * ROW_HEIGHT
    parts = _noise_band(scale, noise_floor, bottom) if noise_floor else []
    caption = f"times the baseline's speed, batch size {batch_size}; 95 % intervals"
    if noise_floor:
        caption += f"; noise floor {format_share(noise_floor, 1)}"
    parts += horizontal_axis(scale, 4, bottom, caption)
    parts.append(line(scale.to_pixels(1), 4, scale.to_pixels(1), bottom, "baseline"))
    for row, (arm, speedup) in enumerate(speedups):
        parts += _row(scale, arm, speedup, marks[arm], 20 + row * ROW_HEIGHT)
    return picture(f"Speed-up over the baseline at batch size {batch_size}", bottom + 42, parts)


def _scale(speedups: Sequence[Interval]) -> Scale:
    """Return a scale for all values; a very wide interval is cut off, as it would squeeze them."""
    values = [1.0, *(speedup.value for speedup in speedups)]
    least, most = min(values) / INTERVAL_CUTOFF, max(values) * INTERVAL_CUTOFF
    bounds = [
        min(max(bound, least), most)
        for speedup in speedups
        for bound in (speedup.low, speedup.high)
        if bound is not None
    ]
    return scale_around([*bounds, *values], NAME_COLUMN_WIDTH, WIDTH - 60)


def _noise_band(scale: Scale, noise_floor: float, bottom: float) -> list[Markup]:
    low, high = (
        scale.to_pixels(scale.clamp(end)) for end in (1 / (1 + noise_floor), 1 + noise_floor)
    )
    return [rectangle(low, 4, high - low, bottom - 4, "noise")]


def _row(scale: Scale, arm: str, speedup: Interval, mark: Mark, y: float) -> list[Markup]:
    style = "name strong" if mark.is_advised else "name"
    parts = [text(NAME_COLUMN_WIDTH - 12, y + 4, mark.name, style)]
    if speedup.low is not None and speedup.high is not None:
        low, high = (scale.to_pixels(scale.clamp(each)) for each in (speedup.low, speedup.high))
        parts.append(line(low, y, high, y, "interval"))
    title = f"{arm}: {format_interval(speedup, decimals=3)}"
    return [
        *parts,
        circle(scale.to_pixels(speedup.value), y, 5, "point", title),
        text(WIDTH - 50, y + 4, format_speedup(speedup)),
    ]
