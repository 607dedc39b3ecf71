"""Performance portability over several platforms."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.portability import ApplicationPortability
from advisor.report.charts.marks import Mark, place, short_names
from advisor.report.charts.plots import Point, Series, line_plot, scatter_plot
from advisor.report.charts.scales import Axis
from advisor.report.charts.svg import Picture
from advisor.system.number_format import format_number, format_share


def navigation_chart(applications: Sequence[ApplicationPortability]) -> Picture | None:
    """Return performance portability over code convergence, or None if neither is known."""
    marks = _marks(applications)
    series = [
        Series(
            marks[entry.application],
            (
                Point(
                    entry.code_convergence,
                    entry.performance_portability,
                    title=f"{entry.application}: code convergence "
                    f"{format_number(entry.code_convergence)}, performance portability "
                    f"{format_number(entry.performance_portability)}",
                ),
            ),
        )
        for entry in applications
        if entry.code_convergence is not None and entry.performance_portability is not None
    ]
    if not series:
        return None
    return scatter_plot(
        "Performance portability against code convergence",
        series,
        Axis("code convergence (1: the same code everywhere)", is_logarithmic=False),
        Axis("performance portability (0: not on every platform)", is_logarithmic=False),
    )


def cascade_chart(applications: Sequence[ApplicationPortability]) -> Picture | None:
    """Return each application's efficiencies over the platforms where it ran, best first."""
    marks, series, most = _marks(applications), [], 2
    for entry in applications:
        known = sorted((s for s in entry.efficiencies.values() if s is not None), reverse=True)
        most = max(most, len(entry.efficiencies))
        points = tuple(
            Point(float(count), share, title=f"{entry.application}: {format_share(share)}")
            for count, share in enumerate(known, start=1)
        )
        if points:
            series.append(Series(marks[entry.application], points))
    if not series:
        return None
    return line_plot(
        "Efficiency by platform, per application",
        series,
        Axis(
            "platforms, each application's best first",
            is_logarithmic=False,
            ticks=tuple(map(float, range(1, most + 1))),
            low=0.8,
            high=most + 0.2,
        ),
        Axis(
            "efficiency against the platform's fastest workflow",
            is_logarithmic=False,
            low=-0.03,
            high=1.05,
        ),
    )


def _marks(applications: Sequence[ApplicationPortability]) -> dict[str, Mark]:
    names = short_names([entry.application for entry in applications])
    return {
        application: Mark(name, *place(number))
        for number, (application, name) in enumerate(names.items())
    }
