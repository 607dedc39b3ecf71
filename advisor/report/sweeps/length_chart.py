"""Draw the speed-up of each arm against the length of inputs or outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.plan import BASELINE
from advisor.domain.sweep import Lengths
from advisor.report.charts.marks import Mark, place, short_names
from advisor.report.charts.plots import Point, Series
from advisor.report.charts.speedups import FEWEST_SHAPES, speedup_curves
from advisor.report.charts.svg import Picture
from advisor.report.sweeps.sweep_document import ArmCurve, CurvePoint, SweepDocument
from advisor.system.number_format import format_interval, format_speedup


def length_charts(document: SweepDocument) -> list[Picture]:
    """Return a picture over the input lengths for each output length, or over the output lengths.

    With one input length, the horizontal axis has the output lengths. There is no picture where
    fewer than two lengths are measured.
    """
    measured = sorted({point.lengths for curve in document.curves for point in curve.points})
    marks = _marks(document)
    if len({each.input_tokens for each in measured}) < FEWEST_SHAPES:
        chart = _chart(document, measured, marks, "output_tokens", "Speed-up by output length")
        return [chart] if chart else []
    outputs = sorted({each.output_tokens for each in measured})
    charts = []
    for output in outputs:
        title = "Speed-up by input length"
        if len(outputs) > 1:
            title += f", {output} output tokens"
        own = [each for each in measured if each.output_tokens == output]
        charts.append(_chart(document, own, marks, "input_tokens", title))
    return [chart for chart in charts if chart is not None]


def _chart(
    document: SweepDocument,
    lengths: Sequence[Lengths],
    marks: Mapping[str, Mark],
    axis: str,
    title: str,
) -> Picture | None:
    shown = [
        (curve, points)
        for curve in document.curves
        if (points := [point for point in curve.points if point.lengths in lengths])
    ]
    series = [
        Series(
            marks[curve.arm],
            tuple(_point(curve, point, axis) for point in points),
            format_speedup(points[-1].speedup),
        )
        for curve, points in shown
    ]
    tokens = [getattr(each, axis) for each in lengths]
    return speedup_curves(title, series, axis.replace("_", " "), tokens)


def _point(curve: ArmCurve, point: CurvePoint, axis: str) -> Point:
    tokens, speedup = getattr(point.lengths, axis), point.speedup
    title = f"{curve.arm}, {tokens} {axis.replace('_', ' ')}: {format_interval(speedup)}"
    return Point(tokens, speedup.value, speedup.low, speedup.high, title)


def _marks(document: SweepDocument) -> dict[str, Mark]:
    advised = document.recommendation.arm if document.recommendation else None
    names = short_names([curve.arm for curve in document.curves])
    return {
        arm: Mark(name, *place(number), is_advised=arm == advised, is_baseline=arm == BASELINE)
        for number, (arm, name) in enumerate(names.items())
    }
