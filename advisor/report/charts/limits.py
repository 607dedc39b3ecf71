"""The arms at the limits of the device: the roofline, and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import CallDiagnosis
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, scatter_plot
from advisor.report.charts.scales import Axis, Scale, horizontal_axis
from advisor.report.charts.svg import (
    Drawing,
    Layout,
    Picture,
    picture_of_rows,
    rectangle,
    row_name,
    text,
)
from advisor.system.number_format import (
    MEBIBYTE,
    format_mebibytes,
    format_number,
    format_share,
)
from probes.wire.events import Peaks

TERA = 1e12
#: The roof reaches this factor beyond the outermost points and its ridge.
BEYOND = 2.0
BAR_HEIGHT = 12


def roofline_chart(
    ranked: Sequence[RankedArm], marks: Mapping[str, Mark], peaks: Peaks | None, dtype: str
) -> Picture | None:
    """Return the arithmetic of each arm per second over that per byte, below the measured peaks.

    None where the peaks or the work of a call are not known.
    """
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    if peaks is None or peak is None:
        return None
    series = []
    for entry in ranked:
        calls = entry.measured.diagnosis if entry.measured else ()
        points = tuple(
            point for call in calls if (point := _point(entry.arm, call, peaks, peak)) is not None
        )
        if points:
            series.append(Series(marks[entry.arm], points))
    if not series:
        return None
    ridge = peak / peaks.bytes_per_second
    intensities = [ridge, *(point.x for each in series for point in each.points)]
    first, last = min(intensities) / BEYOND, max(intensities) * BEYOND
    roof = (
        (first, first * peaks.bytes_per_second / TERA),
        (ridge, peak / TERA),
        (last, peak / TERA),
    )
    return scatter_plot(
        "Roofline: arithmetic rate against arithmetic intensity",
        series,
        Axis("operations per byte: weights are read once a call; one column for each batch size"),
        Axis("TFLOP/s"),
        guides=[Guide("roof", roof, "measured peak")],
    )


def _point(arm: str, call: CallDiagnosis, peaks: Peaks, peak: float) -> Point | None:
    if not call.memory_share or not call.compute_share:
        return None
    rate, bandwidth = call.compute_share * peak, call.memory_share * peaks.bytes_per_second
    title = (
        f"{arm}, batch {call.batch_size}: {format_number(rate / TERA)} TFLOP/s, "
        f"{format_share(call.compute_share)} of the peak, "
        f"{format_share(call.memory_share)} of the bandwidth, {call.bound}-bound"
    )
    return Point(rate / bandwidth, rate / TERA, title=title)


def memory_chart(ranked: Sequence[RankedArm], marks: Mapping[str, Mark]) -> Picture | None:
    """Return the peak memory of each arm, and the part of it after the builds."""
    rows = [
        (entry.arm, entry.measured.memory_bytes.peak, entry.measured.memory_bytes.serving)
        for entry in ranked
        if entry.measured and entry.measured.memory_bytes.peak
    ]
    if not rows:
        return None
    has_serving = any(serving for _, _, serving in rows)
    caption = "MiB; dark: after the builds, light: with the builds" if has_serving else "MiB"

    def draw(layout: Layout) -> Drawing:
        most = max(peak for _, peak, _ in rows) / MEBIBYTE
        scale = Scale(0, most, layout.start, layout.width - 90)
        bottom = 6 + len(rows) * layout.row_height
        parts = horizontal_axis(scale, 4, bottom, caption)
        for row, (arm, peak, serving) in enumerate(rows):
            y = (row + 1) * layout.row_height - 9
            title = f"{arm}: peak {format_mebibytes(peak)} MiB, after the builds " + (
                f"{format_mebibytes(serving)} MiB" if serving else "not known"
            )
            parts += [
                row_name(layout, y, marks[arm].name),
                _bar(scale, peak, y, "memory", title),
                *([_bar(scale, serving, y, "memory serving", title)] if serving else []),
                text(scale.to_pixels(peak / MEBIBYTE) + 6, y + 4, f"{format_mebibytes(peak)} MiB"),
            ]
        return bottom + 42, parts

    return picture_of_rows("Peak memory of each arm", draw)


def _bar(scale: Scale, size_bytes: float, y: float, css_class: str, title: str) -> Markup:
    width = scale.to_pixels(scale.clamp(size_bytes / MEBIBYTE)) - scale.start
    return rectangle(scale.start, y - BAR_HEIGHT / 2, width, BAR_HEIGHT, css_class, title)
