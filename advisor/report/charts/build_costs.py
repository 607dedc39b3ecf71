"""What a build costs and when it has paid for itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from advisor.domain.answer import RankedArm
from advisor.domain.plan import BASELINE
from advisor.recommendation.costs import Cost, break_even
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, line_plot, scatter_plot
from advisor.report.charts.scales import Axis
from advisor.report.charts.svg import Picture
from advisor.system.number_format import format_interval, format_seconds

#: The shortest build that the logarithmic axis shows.
SHORTEST_BUILD_SECONDS = 0.01
#: The axis of requests reaches this factor beyond each break-even or, for an arm without one, until
#: its requests take this many times as long as its build, within these limits.
BEYOND, LEAST_REQUESTS, MOST_REQUESTS = 10.0, 1e3, 1e8
#: Points of a curve, and the largest ratio that is shown.
POINTS, HIGHEST_RATIO = 80, 5.0


def build_cost_chart(ranked: Sequence[RankedArm], marks: Mapping[str, Mark]) -> Picture | None:
    """Return the speed-up over the seconds of the cold build, or None without any build."""
    series = [
        Series(
            marks[entry.arm],
            (
                Point(
                    max(entry.measured.build_seconds.cold, SHORTEST_BUILD_SECONDS),
                    entry.speedup.value,
                    title=f"{entry.arm}: {format_interval(entry.speedup)}, built in "
                    f"{format_seconds(entry.measured.build_seconds.cold)} s",
                ),
            ),
        )
        for entry in ranked
        if entry.measured is not None
    ]
    if not series:
        return None
    title = "Speed against the cost of the build"
    captions = Axis("seconds of the cold build"), Axis("times the baseline's speed")
    return scatter_plot(title, series, *captions)


def break_even_chart(
    ranked: Sequence[RankedArm], batch_size: int, marks: Mapping[str, Mark]
) -> Picture | None:
    """Return each arm's seconds, cold build included, over the baseline's, by requests.

    A build has paid for itself where its curve crosses 1. None without a baseline or a build.
    """
    costs = {entry.arm: cost for entry in ranked if (cost := _cost(entry, batch_size))}
    incumbent = costs.pop(BASELINE, None)
    if incumbent is None or not costs:
        return None
    most = max([LEAST_REQUESTS, *(_horizon(cost, incumbent) for cost in costs.values())])
    requests = [most ** (step / POINTS) for step in range(POINTS + 1)]
    series = [Series(marks[arm], _curve(cost, incumbent, requests)) for arm, cost in costs.items()]
    least = min(1.0, *(point.y for each in series for point in each.points))
    return line_plot(
        f"Time including the build over the baseline's, batch size {batch_size}",
        series,
        Axis("requests", low=1.0, high=most),
        Axis("seconds with the build, over the baseline's", low=least / 1.1, high=HIGHEST_RATIO),
        guides=[Guide("baseline", ((1.0, 1.0), (most, 1.0)), "baseline", is_named_at_start=True)],
        has_markers=False,
    )


def _horizon(cost: Cost, incumbent: Cost) -> float:
    """Return the number of requests until which the curve of an arm is shown."""
    paid = break_even(cost, incumbent)
    shown = paid if math.isfinite(paid) else cost.build_seconds / cost.request_seconds
    return min(shown * BEYOND, MOST_REQUESTS)


def _cost(entry: RankedArm, batch_size: int) -> Cost | None:
    """Return the costs of one request, which is one sample of a batch."""
    cell = next((cell for cell in entry.cells if cell.batch_size == batch_size), None)
    if cell is None or entry.measured is None:
        return None
    return Cost(entry.measured.build_seconds.cold, cell.seconds.median / batch_size)


def _curve(cost: Cost, incumbent: Cost, requests: Sequence[float]) -> tuple[Point, ...]:
    """Return the part of a curve below the largest ratio, or its end."""
    points = [Point(number, cost.total(number) / incumbent.total(number)) for number in requests]
    return tuple(point for point in points if point.y <= HIGHEST_RATIO) or tuple(points[-1:])
