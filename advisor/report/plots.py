"""Axes, and plots of several arms on two of them: points, and curves with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from advisor.domain.text import format_number
from advisor.report.svg import Mark, Picture, Place, line, marker, path, picture, text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 66, 616, 26, 290
#: Space below the axis for its values and its caption.
CAPTION_HEIGHT = 42


class Point(NamedTuple):
    """One point, with the ends of the interval of its height and the text that explains it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


class Series(NamedTuple):
    """The points of one arm, from left to right."""

    mark: Mark
    points: tuple[Point, ...]


class Guide(NamedTuple):
    """A line that is not of an arm, such as a limit, through places in values, or a filled area."""

    css_class: str
    places: tuple[Place, ...]
    name: str = ""
    is_area: bool = False


def plot(
    title: str, series: Sequence[Series], across: Axis, upward: Axis, guides: Sequence[Guide] = ()
) -> Picture:
    points = [point for each in series for point in each.points]
    lines = [place for guide in guides for place in guide.places]
    heights = [
        value for point in points for value in (point.y, point.low, point.high) if value is not None
    ]
    xs = across.scale([*(p.x for p in points), *(x for x, _ in lines)], LEFT, RIGHT)
    ys = upward.scale([*heights, *(y for _, y in lines)], BOTTOM, TOP)
    parts = [*horizontal_axis(xs, TOP, BOTTOM), *vertical_axis(ys), text(4, 14, upward.caption)]
    for guide in guides:
        places = [(xs.to_pixels(x), ys.to_pixels(y)) for x, y in guide.places]
        parts.append(path("polygon" if guide.is_area else "polyline", places, guide.css_class))
        if guide.name:
            parts.append(text(places[-1][0] - 4, places[-1][1] - 6, guide.name, "value"))
    step = min(3.0, 24 / len(series))
    # The advised arm lies over the others.
    for number, each in sorted(enumerate(series), key=lambda pair: pair[1].mark.is_advised):
        shift = (number - (len(series) - 1) / 2) * step if each.points[1:] else 0
        parts += _curve(xs, ys, each, shift)
    key = [each.mark.key_item() for each in series]
    return picture(title, WIDTH, BOTTOM + CAPTION_HEIGHT, parts, key)


def _curve(xs: Scale, ys: Scale, series: Series, shift: float) -> list[Markup]:
    """Return one curve; `shift` moves it sideways so that intervals do not hide each other."""
    css_class, points = series.mark.css_class, series.points
    places = [(xs.to_pixels(point.x) + shift, ys.to_pixels(point.y)) for point in points]
    parts = [path("polyline", places, css_class)] if len(places) > 1 else []
    for point, (x, y) in zip(points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = map(ys.to_pixels, (point.low, point.high))
            parts.append(line(x, low, x, high, f"{css_class} bar"))
        parts.append(marker(x, y, series.mark.shape, css_class, point.title))
    return parts


MOST_TICKS, FEWEST_TICKS = 8, 3
TICK_STEPS = (1, 2, 2.5, 5, 10)
#: A logarithmic axis over more decades than this has ticks at the powers of ten only.
MANY_DECADES = 2.5
#: Share of the range that a linear scale adds on both sides, and factor of a logarithmic one.
MARGIN_SHARE, MARGIN_FACTOR = 0.06, 1.25
#: Keeps a tick at the end of a range in spite of rounding.
ROUNDING = 1e-9
#: Smaller ticks have an exponent, as the zeros would leave no room for others.
LEAST_PLAIN_TICK = 1e-3
#: Width of a character of a tick's label on narrow screens, where it is the largest, the space
#: between two labels, and the distance of lines.
CHARACTER_WIDTH, LABEL_SPACE, LINE_HEIGHT = 8.8, 8, 15


class Axis(NamedTuple):
    """What one axis shows. Without limits, it holds all values with a margin."""

    caption: str
    is_logarithmic: bool = True
    #: Values of its ticks; empty for round ones.
    ticks: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None

    def scale(self, values: Sequence[float], start: float, end: float) -> Scale:
        low, high = min(values), max(values)
        margin = (high - low) * MARGIN_SHARE or 0.1
        if self.is_logarithmic:
            low, high = low / MARGIN_FACTOR, high * MARGIN_FACTOR
        else:
            low, high = low - margin, high + margin
        low = low if self.low is None else self.low
        return Scale(self, low, high if self.high is None else self.high, start, end)


class Scale(msgspec.Struct, frozen=True):
    """A map from the values `low` to `high` of an axis to pixels `start` to `end`."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def to_pixels(self, value: float) -> float:
        """Return the place of a value; one outside the range is at the nearer end."""
        places = (self.low, self.high, min(max(value, self.low), self.high))
        low, high, at = map(math.log10, places) if self.axis.is_logarithmic else places
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 1)

    def ticks(self) -> tuple[float, ...]:
        if self.axis.ticks:
            return self.axis.ticks
        found = self._logarithmic_ticks() if self.axis.is_logarithmic else ()
        return found if len(found) >= FEWEST_TICKS else self._linear_ticks()

    def _logarithmic_ticks(self) -> tuple[float, ...]:
        first, last = math.log10(self.low), math.log10(self.high)
        steps = (1,) if last - first > MANY_DECADES else (1, 2, 5)
        return tuple(
            step * 10.0**power
            for power in range(math.floor(first), math.ceil(last) + 1)
            for step in steps
            if self.low <= step * 10.0**power <= self.high
        )

    def _linear_ticks(self) -> tuple[float, ...]:
        least_step = (self.high - self.low) / MOST_TICKS
        magnitude = 10 ** math.floor(math.log10(least_step))
        step = next(step * magnitude for step in TICK_STEPS if step * magnitude >= least_step)
        first = math.ceil(self.low / step - ROUNDING)
        last = math.floor(self.high / step + ROUNDING)
        return tuple(round(number * step, 10) for number in range(first, last + 1))


def horizontal_axis(scale: Scale, top: float, bottom: float) -> list[Markup]:
    parts = []
    free_from = -math.inf
    for tick in scale.ticks():
        x = scale.to_pixels(tick)
        label = f"{tick:.0e}" if 0 < tick < LEAST_PLAIN_TICK else format_number(tick)
        half_width = CHARACTER_WIDTH * len(label) / 2
        parts.append(line(x, top, x, bottom, "grid"))
        if x - half_width >= free_from:
            parts.append(text(x, bottom + 16, label, "tick"))
            free_from = x + half_width + LABEL_SPACE
    return [*parts, text((scale.start + scale.end) / 2, bottom + 34, scale.axis.caption, "tick")]


def vertical_axis(scale: Scale) -> list[Markup]:
    parts = []
    last_label = math.inf
    for tick in scale.ticks():
        y = scale.to_pixels(tick)
        parts.append(line(LEFT, y, RIGHT, y, "grid"))
        if abs(last_label - y) >= LINE_HEIGHT:
            parts.append(text(LEFT - 6, y + 4, format_number(tick), "value"))
            last_label = y
    return parts
