"""Latency of generated text against throughput, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from advisor.domain.answer import RankedArm
from advisor.domain.measurement import GenerationMetrics
from advisor.report.charts.marks import Mark
from advisor.report.charts.plots import Guide, Point, Series, scatter_plot
from advisor.report.charts.scales import Axis
from advisor.report.charts.svg import Picture, Place
from advisor.system.number_format import format_milliseconds, format_number

MILLI = 1e3


def first_token_chart(ranked: Sequence[RankedArm], marks: Mapping[str, Mark]) -> Picture | None:
    """Return the time to the first token against throughput; None for another task."""
    return _chart("Time to the first token (TTFT)", _seconds_to_first, ranked, marks)


def next_token_chart(ranked: Sequence[RankedArm], marks: Mapping[str, Mark]) -> Picture | None:
    """Return the time between tokens against throughput; None for another task."""
    return _chart("Time between tokens (ITL)", _seconds_between, ranked, marks)


def _seconds_to_first(metrics: GenerationMetrics) -> float | None:
    return metrics.ttft_seconds


def _seconds_between(metrics: GenerationMetrics) -> float | None:
    return metrics.itl_seconds


def _chart(
    name: str,
    seconds_of: Callable[[GenerationMetrics], float | None],
    ranked: Sequence[RankedArm],
    marks: Mapping[str, Mark],
) -> Picture | None:
    series = []
    for entry in ranked:
        points = tuple(
            Point(
                cell.throughput.value,
                seconds * MILLI,
                title=f"{entry.arm}, batch {cell.batch_size}: "
                f"{format_milliseconds(seconds, digits=3)} ms at "
                f"{format_number(cell.throughput.value, decimals=0)} tokens/s",
            )
            for cell in entry.cells
            if cell.generation and (seconds := seconds_of(cell.generation))
        )
        if points:
            series.append(Series(marks[entry.arm], points))
    if not series:
        return None
    front = pareto_front([(point.x, point.y) for each in series for point in each.points])
    return scatter_plot(
        f"{name} against throughput, with the Pareto front",
        series,
        Axis("tokens/s of the batch; one point for each batch size, smallest on the left"),
        Axis(f"{name}, ms"),
        guides=[Guide("front", front)] if len(front) > 1 else [],
        is_joined=True,
    )


def pareto_front(points: Sequence[Place]) -> tuple[Place, ...]:
    """Return the points `(throughput, latency)` that no other one beats in both, by throughput."""
    front: list[Place] = []
    for throughput, latency in sorted(points, key=lambda point: (-point[0], point[1])):
        if not front or latency < front[-1][1]:
            front.append((throughput, latency))
    return tuple(reversed(front))
