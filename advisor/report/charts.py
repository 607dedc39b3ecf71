"""Draw the pictures of the HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from advisor.domain.measurement import ApplicationPortability, Interval
from advisor.domain.rubric import LETTERS
from advisor.report.document import WorkflowEntry
from advisor.report.svg import (
    NAME_COLUMN_WIDTH,
    ROW_HEIGHT,
    WIDTH,
    Scale,
    circle,
    horizontal_axis,
    line,
    picture,
    rectangle,
    scale_around,
    shorten,
    text,
    vertical_axis,
)
from advisor.report.text_report import CRITERION_HEADS
from advisor.system.number_format import (
    format_interval,
    format_number,
    format_share,
    format_speedup,
)

#: Space around the name of a point in which no other name is drawn.
NAME_HEIGHT, NAME_WIDTH = 13, 200
#: Intervals are cut off at this factor beyond the smallest and the largest speed-up.
INTERVAL_CUTOFF = 2
#: The shortest build that the logarithmic axis shows.
SHORTEST_BUILD_SECONDS = 0.001
HIGHEST_TIER = 3
SERIES_COLOURS = 6


def tier_chart(ranked: Sequence[WorkflowEntry]) -> Markup:
    """Return a row for each arm with as many filled marks for each criterion as its tier."""
    column_width = (WIDTH - NAME_COLUMN_WIDTH) / len(CRITERION_HEADS)
    centres = {
        name: NAME_COLUMN_WIDTH + (column + 0.5) * column_width
        for column, name in enumerate(CRITERION_HEADS)
    }
    parts = [
        text(centre, 14 + 14 * row, word, "tick")
        for name, centre in centres.items()
        for row, word in enumerate(name.split("_"))
    ]
    for row, entry in enumerate(ranked):
        y = 50 + row * ROW_HEIGHT
        parts += [
            text(NAME_COLUMN_WIDTH - 12, y + 4, shorten(entry.arm), "name"),
            line(0, y + ROW_HEIGHT / 2, WIDTH, y + ROW_HEIGHT / 2, "grid"),
        ]
        for name, centre in centres.items():
            parts += _tier_marks(entry, name, centre, y)
    title = "Tiers of each workflow on the five criteria: three marks are best"
    return picture(title, 50 + len(ranked) * ROW_HEIGHT, parts)


def _tier_marks(entry: WorkflowEntry, criterion: str, centre: float, y: float) -> list[Markup]:
    score = (entry.scores or {})[criterion]
    letter, name = LETTERS[score.tier], criterion.replace("_", " ")
    title = f"{entry.arm}, {name}: {letter}, {score.evidence}"
    filled = "tier" if score.evidence in {"measured", "imported"} else "tier unmeasured"
    return [
        circle(
            centre + (mark - 2) * 17, y, 6, filled if mark <= score.tier else "tier empty", title
        )
        for mark in range(1, HIGHEST_TIER + 1)
    ]


def speedup_chart(
    ranked: Sequence[WorkflowEntry], cell_index: int, batch_size: int, noise_floor: float | None
) -> Markup:
    """Return the speed-ups at one batch size with their intervals over a band of noise."""
    speedups = [
        (entry.arm, entry.cells[cell_index].speedup)
        for entry in ranked
        if len(entry.cells) > cell_index
    ]
    scale = _speedup_scale([speedup for _, speedup in speedups])
    bottom = 10 + len(speedups) * ROW_HEIGHT
    parts = _noise_band(scale, noise_floor, bottom) if noise_floor else []
    caption = f"times the baseline's speed, batch size {batch_size}; 95% intervals"
    parts += horizontal_axis(scale, 4, bottom, caption)
    parts.append(line(scale.to_pixels(1), 4, scale.to_pixels(1), bottom, "baseline"))
    for row, (arm, speedup) in enumerate(speedups):
        parts += _speedup_row(scale, arm, speedup, 20 + row * ROW_HEIGHT)
    return picture(f"Speed-up over the baseline at batch size {batch_size}", bottom + 42, parts)


def _speedup_scale(speedups: Sequence[Interval]) -> Scale:
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
        scale.to_pixels(max(scale.low, min(scale.high, end)))
        for end in (1 / (1 + noise_floor), 1 + noise_floor)
    )
    return [rectangle(low, 4, high - low, bottom - 4, "noise")]


def _speedup_row(scale: Scale, arm: str, speedup: Interval, y: float) -> list[Markup]:
    parts = [text(NAME_COLUMN_WIDTH - 12, y + 4, shorten(arm), "name")]
    if speedup.low is not None and speedup.high is not None:
        low, high = max(speedup.low, scale.low), min(speedup.high, scale.high)
        parts.append(line(scale.to_pixels(low), y, scale.to_pixels(high), y, "interval"))
    title = f"{arm}: {format_interval(speedup, decimals=3)}"
    return [
        *parts,
        circle(scale.to_pixels(speedup.value), y, 5, "point", title),
        text(WIDTH - 50, y + 4, format_speedup(speedup)),
    ]


def build_cost_chart(ranked: Sequence[WorkflowEntry]) -> Markup | None:
    """Return the speed-up over the seconds of the cold build, or None without any build."""
    points = [
        (
            entry.arm,
            max(entry.build_seconds.cold, SHORTEST_BUILD_SECONDS),
            entry.speedup.value,
        )
        for entry in ranked
        if entry.speedup is not None and entry.build_seconds is not None
    ]
    captions = "seconds of the cold build (logarithmic)", "times the baseline's speed"
    title = "Speed against the cost of the build"
    return _scatter(title, points, captions, is_logarithmic=True) if points else None


def navigation_chart(applications: Sequence[ApplicationPortability]) -> Markup | None:
    """Return performance portability over code convergence, or None if neither is known."""
    points = [
        (entry.application, entry.code_convergence, entry.performance_portability)
        for entry in applications
        if entry.code_convergence is not None and entry.performance_portability is not None
    ]
    captions = (
        "code convergence (1: the same code everywhere)",
        "performance portability (0: it does not run on every platform)",
    )
    title = "Performance portability against code convergence"
    return _scatter(title, points, captions) if points else None


def _scatter(
    title: str,
    points: Sequence[tuple[str, float, float]],
    captions: tuple[str, str],
    *,
    is_logarithmic: bool = False,
) -> Markup:
    """Return named points `(name, x, y)` on two axes; only the horizontal one is logarithmic."""
    across = scale_around([x for _, x, _ in points], 60, WIDTH - 20, is_logarithmic=is_logarithmic)
    upward = scale_around([y for _, _, y in points], 260, 20)
    parts = [
        *horizontal_axis(across, 20, 260, captions[0]),
        *vertical_axis(upward, 60, WIDTH - 20),
        text(60, 12, captions[1], "label"),
    ]
    placed: list[tuple[float, float]] = []
    for name, x, y in sorted(points, key=lambda point: point[2]):
        left, top = across.to_pixels(x), upward.to_pixels(y)
        label = f"{name}: {captions[0]} {format_number(x)}, {captions[1]} {format_number(y)}"
        parts.append(circle(left, top, 6, "point", label))
        name_top = _free_place(left, top + 4, placed)
        placed.append((left, name_top))
        is_right = left > WIDTH * 0.66
        parts.append(
            text(
                left + (-10 if is_right else 10),
                name_top,
                shorten(name),
                "name" if is_right else "label",
            )
        )
    return picture(title, 300, parts)


def _free_place(left: float, top: float, placed: Sequence[tuple[float, float]]) -> float:
    """Return the lowest height from `top` upwards at which a name overlaps no placed name."""
    while any(
        abs(top - other_top) < NAME_HEIGHT and abs(left - other_left) < NAME_WIDTH
        for other_left, other_top in placed
    ):
        top -= NAME_HEIGHT
    return top


def cascade_chart(applications: Sequence[ApplicationPortability]) -> Markup:
    """Return each application's efficiencies over the platforms where it ran, best first."""
    platform_count = len(applications[0].efficiencies)
    right = WIDTH - 240
    across, upward = Scale(1, max(platform_count, 2), 60, right), Scale(0, 1, 240, 20)
    parts = []
    for count in range(1, platform_count + 1):
        x = across.to_pixels(count)
        parts += [line(x, 20, x, 240, "grid"), text(x, 258, str(count), "tick")]
    parts += [
        *vertical_axis(upward, 60, right),
        text(60, 12, "efficiency against the platform's fastest workflow"),
        text((60 + right) / 2, 276, "platforms, each application's best first", "tick"),
    ]
    for row, application in enumerate(applications):
        parts += _cascade_series(application, row, across, upward)
    return picture("Efficiency by platform, per application", 284, parts)


def _cascade_series(
    application: ApplicationPortability, row: int, across: Scale, upward: Scale
) -> list[Markup]:
    """Return the line of one application with its entry in the legend."""
    known = (share for share in application.efficiencies.values() if share is not None)
    efficiencies = sorted(known, reverse=True)
    places = [
        (across.to_pixels(count), upward.to_pixels(share))
        for count, share in enumerate(efficiencies, start=1)
    ]
    css_class = f"series s{row % SERIES_COLOURS}"
    return [
        *(line(*start, *end, css_class) for start, end in pairwise(places)),
        *(
            circle(*place, 4, css_class, f"{application.application}: {format_share(share)}")
            for place, share in zip(places, efficiencies, strict=True)
        ),
        circle(WIDTH - 224, 24 + row * 18, 4, css_class),
        text(WIDTH - 214, 28 + row * 18, shorten(application.application)),
    ]
