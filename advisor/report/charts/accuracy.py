"""Speed of each arm against the error of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.accuracy import worst_error
from advisor.domain.answer import RankedArm
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, scatter_plot
from advisor.report.charts.scales import Axis
from advisor.report.charts.svg import Picture
from advisor.report.formatting.phrases import format_error
from advisor.system.number_format import format_interval

#: Errors below the smallest one, such as 0, are drawn this factor below it.
BELOW = 10.0
#: A limit further than this from every error would squeeze the points, so it is not drawn.
NEAR_LIMIT = 1e4


def accuracy_chart(
    ranked: Sequence[RankedArm], marks: Mapping[str, Mark], allowed: float
) -> Picture | None:
    """Return the speed-up over the largest error of each arm; None where no error is known.

    `allowed` is the largest error of an arm that is not exact.
    """
    errors = {
        entry.arm: error
        for entry in ranked
        if entry.measured and (error := worst_error(entry.measured.correctness)) is not None
    }
    positive = [error for error in errors.values() if error > 0]
    if not positive:
        return None
    least = min(positive) / BELOW
    series = [
        Series(
            marks[entry.arm],
            (
                Point(
                    max(errors[entry.arm], least),
                    entry.speedup.value,
                    title=f"{entry.arm}: error {format_error(errors[entry.arm])}, "
                    f"{format_interval(entry.speedup)}",
                ),
            ),
        )
        for entry in ranked
        if entry.arm in errors
    ]
    heights = [point.y for each in series for point in each.points]
    limit = Guide("limit", ((allowed, min(heights)), (allowed, max(heights))), "allowed")
    is_near = allowed / max(positive) <= NEAR_LIMIT
    below = "; outputs without an error on the left" if len(positive) < len(errors) else ""
    return scatter_plot(
        "Speed against the error of the outputs",
        series,
        Axis(f"largest relative error, or divergence of text{below}"),
        Axis("times the baseline's speed"),
        guides=[limit] if is_near else [],
    )
