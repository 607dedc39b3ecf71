"""The pictures of an answer: speed-ups by batch size and by build time, and the weights."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable

import msgspec

from advisor.domain.answer import RankedArm
from advisor.report.charts.speedups import ShapeAxis, shape_axes
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text
from advisor.tui.rendering.plot import Plot, Series, plot_lines

#: Marks of the arms, by rank.
MARKS = "123456789" + string.ascii_lowercase
#: Shorter builds are drawn at this time, because the axis is logarithmic.
SHORTEST_BUILD_SECONDS = 0.1
WHOLE = 100
NO_CHART = "The run has no figures for a picture, or the terminal is too small."

#: Draws a picture with a width and a height; returns no lines where there is no room.
Chart = Callable[[int, int], list[str]]


def charts_of(answer: RunAnswer) -> tuple[Chart, ...]:
    plots = (speed_by_shape(answer), speed_by_build(answer))
    charts: list[Chart] = [functools.partial(plot_lines, plot) for plot in plots if plot.series]
    if answer.ranked:
        charts.append(functools.partial(weight_map_lines, answer))
    return tuple(charts)


def speed_by_shape(answer: RunAnswer) -> Plot:
    """Of several lengths, the speed-ups are those at the largest batch size."""
    shapes = sorted({cell.shape for entry in answer.ranked for cell in entry.cells})
    name, others, values = (shape_axes(shapes) or [ShapeAxis("batch size", "", {})])[-1]
    values = values or {shape: shape.batch_size for shape in shapes}
    at_others = f", {others}" if others else ""
    return Plot(
        f"Speed-up over eager PyTorch by {name}{at_others}, with 95 % intervals",
        name.removesuffix(" size"),
        "speed-up",
        tuple(
            Series(
                _mark(entry),
                _label(answer, entry),
                tuple(
                    (values[cell.shape], cell.speedup)
                    for cell in entry.cells
                    if cell.shape in values
                ),
            )
            for entry in answer.ranked
            if entry.cells
        ),
        tuple(map(float, values.values())),
    )


def speed_by_build(answer: RunAnswer) -> Plot:
    """Return speed-up against build time; the legend marks what is not on the Pareto front."""
    advice = answer.recommendation
    front = set(advice.pareto or ()) if advice is not None else set()
    series = []
    for entry in answer.ranked:
        if entry.measured is not None:
            build = max(entry.measured.build_seconds.cold, SHORTEST_BUILD_SECONDS)
            label = _label(answer, entry) + ("" if entry.arm in front else " - beaten by another")
            series.append(Series(_mark(entry), label, ((build, entry.speedup),)))
    return Plot("Speed-up against build time", "build s", "speed-up", tuple(series))


def _label(answer: RunAnswer, entry: RankedArm) -> str:
    advice = answer.recommendation
    mark = " (advised)" if advice is not None and advice.arm == entry.arm else ""
    return f"{text.printable(entry.arm)}{mark}"


def _mark(entry: RankedArm) -> str:
    return MARKS[min(entry.scored.rank - 1, len(MARKS) - 1)]


def weight_map_lines(answer: RunAnswer, width: int, height: int) -> list[str]:
    """Return which arm leads at every weighting of the three Ps.

    From left to right performance weighs more, from bottom to top productivity; portability has the
    rest.
    """
    rows, columns = max(height - 4, 1), max(min(width // 2, 60), 10)
    candidates = [entry for entry in answer.ranked if not entry.scored.failures]
    leaders: dict[str, RankedArm] = {}
    lines = []
    for row in range(rows):
        productivity = WHOLE * (rows - 1 - row) / max(rows - 1, 1)
        cells = []
        for column in range(columns):
            performance = WHOLE * column / (columns - 1)
            leader = _leader(answer, candidates, performance, productivity)
            if leader is not None:
                leaders.setdefault(_mark(leader), leader)
            cells.append(_mark(leader) if leader is not None else " ")
        lines.append(f"{productivity:>5.0f} % {''.join(cells)}")
    legend = [f"{mark} {_label(answer, entry)}" for mark, entry in sorted(leaders.items())]
    named = [
        f"{line}   {legend[number] if number < len(legend) else ''}"[:width].rstrip()
        for number, line in enumerate(lines)
    ]
    now = answer.priorities
    title = (
        "Leading arm by weights: performance to the right, productivity upwards, portability"
        f" the rest (now {now.performance:g}, {now.productivity:g}, {now.portability:g})"
    )
    return [title[:width], *named, f"{'':8}0 %{'100 % performance':>{columns - 3}}"]


def _leader(
    answer: RunAnswer, candidates: list[RankedArm], performance: float, productivity: float
) -> RankedArm | None:
    portability = WHOLE - performance - productivity
    if portability < 0 or not candidates:
        return None
    priorities = msgspec.structs.replace(
        answer.priorities,
        performance=performance,
        productivity=productivity,
        portability=portability,
    )

    def score(entry: RankedArm) -> float:
        grades = {name: found.grade for name, found in entry.scored.ratings.items()}
        found = priorities.weigh(grades)
        return found if math.isfinite(found) else -math.inf

    return max(candidates, key=score)
