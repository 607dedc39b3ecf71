"""Pictures for the report as inline SVG: shapes with classes that the style sheet colours, never a style of their own. Pure.

Everything that stands beside a picture as a table is left out of its text: the picture is for the
eye, the table for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from markupsafe import Markup

from advisor.domain.measurement import ApplicationPortability, Interval
from advisor.report.document import WorkflowEntry
from advisor.report.table import CRITERIA, LETTERS

WIDTH = 720
ROW = 26
LEFT = 265
#: Signs of an arm's name that fit left of a picture.
MOST_SIGNS = 36
MOST_TICKS = 8
#: What the names of two points need so as not to run into each other.
LINE, NAME_WIDTH = 13, 200
#: How many times the largest speed-up an interval is shown.
WIDEST = 2
STEPS = (1, 2, 2.5, 5, 10)


class Scale(msgspec.Struct, frozen=True):
    """Maps values to places between two ends; by their logarithm if asked."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return where a value is drawn."""
        low, high, at = (
            (math.log10(each) for each in (self.low, self.high, value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 1)

    def ticks(self) -> list[float]:
        """Return round values between the ends."""
        if self.logarithmic:
            return [
                10.0**power
                for power in range(
                    math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1
                )
            ]
        rough = (self.high - self.low) / MOST_TICKS
        magnitude = 10 ** math.floor(math.log10(rough))
        step = next(step * magnitude for step in STEPS if step * magnitude >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [
            round(number * step, 10)
            for number in range(first, math.floor(self.high / step + 1e-9) + 1)
        ]


def picture(title: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return the parts as one picture with a title."""
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">').format(
        WIDTH, height, title
    )
    return (
        head + Markup("<title>{}</title>").format(title) + Markup("").join(parts) + Markup("</svg>")
    )


def text(x: float, y: float, words: str, kind: str = "label") -> Markup:
    """Return words at a place."""
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(x, y, kind, words)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line."""
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(x1, y1, x2, y2, kind)


def circle(x: float, y: float, radius: float, kind: str, title: str = "") -> Markup:
    """Return a circle that says what it is when pointed at."""
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}"><title>{}</title></circle>').format(
        x, y, radius, kind, title
    )


def shorten(name: str) -> str:
    """Return a name as it fits beside a picture."""
    return name if len(name) <= MOST_SIGNS else name[: MOST_SIGNS - 1] + "…"


def axis(scale: Scale, top: float, bottom: float, caption: str) -> list[Markup]:
    """Return grid lines with their values below, and what they are."""
    parts = []
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, top, x, bottom, "grid"), text(x, bottom + 16, f"{tick:g}", "tick")]
    return [*parts, text((scale.start + scale.end) / 2, bottom + 34, caption, "tick")]


def tiers(ranked: Sequence[WorkflowEntry]) -> Markup:
    """Return the picture of the paper's comparison: for each arm and criterion, as many filled marks as its tier."""
    column = (WIDTH - LEFT) / len(CRITERIA)
    titles = [
        (place, height, word)
        for place, (name, _) in enumerate(CRITERIA)
        for height, word in enumerate(name.split("_"))
    ]
    parts = [
        text(LEFT + (place + 0.5) * column, 14 + 14 * height, word, "tick")
        for place, height, word in titles
    ]
    for row, entry in enumerate(ranked):
        y = 50 + row * ROW
        parts += [
            text(LEFT - 12, y + 4, shorten(entry.arm), "name"),
            line(0, y + ROW / 2, WIDTH, y + ROW / 2, "grid"),
        ]
        for place, (name, _) in enumerate(CRITERIA):
            rating = (entry.scores or {})[name]
            middle = LEFT + (place + 0.5) * column
            words = (
                f"{entry.arm}, {name.replace('_', ' ')}: {LETTERS[rating.tier]}, {rating.evidence}"
            )
            filled = "tier" if rating.evidence in {"measured", "imported"} else "tier said"
            parts += [
                circle(
                    middle + (mark - 2) * 17,
                    y,
                    6,
                    filled if mark <= rating.tier else "tier none",
                    words,
                )
                for mark in (1, 2, 3)
            ]
    return picture(
        "Tiers of each workflow on the five criteria: three marks are best",
        50 + len(ranked) * ROW,
        parts,
    )


def speedups(
    ranked: Sequence[WorkflowEntry], place: int, batch_size: int, noise: float | None
) -> Markup:
    """Return the speed-ups at one batch size with their intervals; what lies in the grey band is no more than noise."""
    found = [
        (entry.arm, entry.cells[place].speedup) for entry in ranked if len(entry.cells) > place
    ]
    values = [1.0, *(speedup.value for _, speedup in found)]
    # An interval that says nearly nothing is cut off rather than making all others too small to
    # see.
    least, most = min(values) / WIDEST, max(values) * WIDEST
    ends = [
        min(max(end, least), most)
        for _, speedup in found
        for end in (speedup.low, speedup.high)
        if end is not None
    ]
    scale = _around([*ends, *values], LEFT, WIDTH - 60)
    bottom = 10 + len(found) * ROW
    parts = []
    if noise:
        low, high = (max(scale.low, min(scale.high, end)) for end in (1 / (1 + noise), 1 + noise))
        band = scale.place(low), scale.place(high) - scale.place(low)
        parts.append(
            Markup('<rect x="{}" y="4" width="{}" height="{}" class="noise"/>').format(
                band[0], round(band[1], 1), bottom - 4
            )
        )
    parts += axis(
        scale, 4, bottom, f"times the baseline's speed, batch size {batch_size}; 95 % intervals"
    )
    parts.append(line(scale.place(1), 4, scale.place(1), bottom, "one"))
    for row, (arm, speedup) in enumerate(found):
        y = 20 + row * ROW
        parts.append(text(LEFT - 12, y + 4, shorten(arm), "name"))
        if speedup.low is not None and speedup.high is not None:
            low, high = max(speedup.low, scale.low), min(speedup.high, scale.high)
            parts.append(line(scale.place(low), y, scale.place(high), y, "interval"))
        parts += [
            circle(scale.place(speedup.value), y, 5, "point", f"{arm}: {_interval(speedup)}"),
            text(WIDTH - 50, y + 4, f"{speedup.value:.2f}x"),
        ]
    return picture(f"Speed-up over the baseline at batch size {batch_size}", bottom + 42, parts)


def _around(
    values: Sequence[float], start: float, end: float, *, logarithmic: bool = False
) -> Scale:
    """Return a scale that holds the values with some room."""
    low, high = min(values), max(values)
    if logarithmic:
        return Scale(low / 1.5, high * 1.5, start, end, logarithmic=True)
    room = (high - low) * 0.06 or 0.1
    return Scale(low - room, high + room, start, end)


def _interval(speedup: Interval) -> str:
    bounds = (
        f"{speedup.low:.3f} to {speedup.high:.3f}"
        if speedup.low is not None and speedup.high is not None
        else "not bounded"
    )
    return f"{speedup.value:.3f}x (95 %: {bounds})"


def scatter(
    title: str,
    points: Sequence[tuple[str, float, float]],
    captions: tuple[str, str],
    *,
    logarithmic: bool = False,
) -> Markup:
    """Return named points against two axes; `logarithmic` is about the horizontal one."""
    across = _around([x for _, x, _ in points], 60, WIDTH - 20, logarithmic=logarithmic)
    upward = _around([y for _, _, y in points], 260, 20)
    parts = axis(across, 20, 260, captions[0])
    for tick in upward.ticks():
        parts += [
            line(60, upward.place(tick), WIDTH - 20, upward.place(tick), "grid"),
            text(54, upward.place(tick) + 4, f"{tick:g}", "name"),
        ]
    parts.append(text(60, 12, captions[1], "label"))
    taken: list[tuple[float, float]] = []
    for name, x, y in sorted(points, key=lambda point: point[2]):
        at = across.place(x), upward.place(y)
        parts.append(
            circle(*at, 6, "point", f"{name}: {captions[0]} {x:.4g}, {captions[1]} {y:.4g}")
        )
        # Names of points that lie close together are moved apart.
        height = at[1] + 4
        while any(
            abs(height - other) < LINE and abs(at[0] - left) < NAME_WIDTH for left, other in taken
        ):
            height -= LINE
        taken.append((at[0], height))
        beyond = at[0] > WIDTH * 0.66
        parts.append(
            text(
                at[0] + (-10 if beyond else 10),
                height,
                shorten(name),
                "name" if beyond else "label",
            )
        )
    return picture(title, 300, parts)


def build_cost(ranked: Sequence[WorkflowEntry]) -> Markup | None:
    """Return speed against the cold build, for the arms that have both."""
    points = [
        (entry.arm, max(entry.build_seconds.cold, 0.001), entry.speedup.value)
        for entry in ranked
        if entry.speedup is not None and entry.build_seconds is not None
    ]
    captions = "seconds of the cold build (logarithmic)", "times the baseline's speed"
    return (
        scatter("Speed against the cost of the build", points, captions, logarithmic=True)
        if points
        else None
    )


def cascade(applications: Sequence[ApplicationPortability]) -> Markup:
    """Return each application's efficiencies on the platforms where it was tried, best first, falling to nothing where it cannot run."""
    platforms = len(applications[0].efficiencies)
    across, upward = Scale(1, max(platforms, 2), 60, WIDTH - 240), Scale(0, 1, 240, 20)
    parts = []
    for count in range(1, platforms + 1):
        parts += [
            line(across.place(count), 20, across.place(count), 240, "grid"),
            text(across.place(count), 258, str(count), "tick"),
        ]
    for tick in upward.ticks():
        parts += [
            line(60, upward.place(tick), WIDTH - 240, upward.place(tick), "grid"),
            text(54, upward.place(tick) + 4, f"{tick:g}", "name"),
        ]
    parts += [
        text(60, 12, "efficiency against the fastest there"),
        text((60 + WIDTH - 240) / 2, 276, "platforms, each application's best first", "tick"),
    ]
    for row, entry in enumerate(applications):
        falling = sorted(
            (share for share in entry.efficiencies.values() if share is not None), reverse=True
        )
        places = [
            (across.place(count), upward.place(share))
            for count, share in enumerate(falling, start=1)
        ]
        kind = f"series s{row % 6}"
        parts += [line(*one, *two, kind) for one, two in pairwise(places)]
        parts += [
            circle(*place, 4, kind, f"{entry.application}: {share:.0%}")
            for place, share in zip(places, falling, strict=True)
        ]
        parts += [
            circle(WIDTH - 224, 24 + row * 18, 4, kind),
            text(WIDTH - 214, 28 + row * 18, shorten(entry.application)),
        ]
    return picture("Efficiency by platform, per application", 284, parts)


def navigation(applications: Sequence[ApplicationPortability]) -> Markup | None:
    """Return performance portability against code convergence, for the applications that have both; None where none has."""
    points = [
        (entry.application, entry.code_convergence, entry.performance_portability)
        for entry in applications
        if entry.code_convergence is not None and entry.performance_portability is not None
    ]
    captions = (
        "code convergence (1: the same code everywhere)",
        "performance portability (0: it does not reach every platform)",
    )
    return (
        scatter("Performance portability against code convergence", points, captions)
        if points
        else None
    )
