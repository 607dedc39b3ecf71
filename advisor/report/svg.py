"""Draw inline SVG: elements with classes that the style sheet colours, and scales.

No element has a style of its own: the page's content security policy forbids it. A table next to
each picture has the same figures for readers that cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from advisor.system.number_format import format_number

WIDTH = 720
#: Height of a row of a picture with one row for each arm.
ROW_HEIGHT = 26
#: Width of the column of names on the left.
NAME_COLUMN_WIDTH = 265
#: Characters of a name that fit into that column.
LONGEST_NAME = 36
MOST_TICKS = 8
TICK_STEPS = (1, 2, 2.5, 5, 10)
#: Share of the range that a linear scale adds on both sides.
MARGIN_SHARE = 0.06
#: Keeps a tick at the end of a range in spite of rounding.
ROUNDING = 1e-9


class Scale(msgspec.Struct, frozen=True):
    """A linear or logarithmic map from the values `low` to `high` to pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_logarithmic: bool = False

    def to_pixels(self, value: float) -> float:
        low, high, at = (
            (math.log10(each) for each in (self.low, self.high, value))
            if self.is_logarithmic
            else (self.low, self.high, value)
        )
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 1)

    def ticks(self) -> list[float]:
        """Return round values between the ends; powers of ten for a logarithmic scale."""
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        least_step = (self.high - self.low) / MOST_TICKS
        magnitude = 10 ** math.floor(math.log10(least_step))
        step = next(step * magnitude for step in TICK_STEPS if step * magnitude >= least_step)
        first = math.ceil(self.low / step - ROUNDING)
        last = math.floor(self.high / step + ROUNDING)
        return [round(number * step, 10) for number in range(first, last + 1)]


def scale_around(
    values: Sequence[float], start: float, end: float, *, is_logarithmic: bool = False
) -> Scale:
    """Return a scale that holds the values with a margin on both sides."""
    low, high = min(values), max(values)
    if is_logarithmic:
        return Scale(low / 1.5, high * 1.5, start, end, is_logarithmic=True)
    margin = (high - low) * MARGIN_SHARE or 0.1
    return Scale(low - margin, high + margin, start, end)


def picture(title: str, height: float, parts: Sequence[Markup]) -> Markup:
    """Return the parts as one picture with an accessible title."""
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">').format(
        WIDTH, height, title
    )
    return (
        head + Markup("<title>{}</title>").format(title) + Markup("").join(parts) + Markup("</svg>")
    )


def text(x: float, y: float, content: str, css_class: str = "label") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(x, y, css_class, content)


def line(x1: float, y1: float, x2: float, y2: float, css_class: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        x1, y1, x2, y2, css_class
    )


def circle(x: float, y: float, radius: float, css_class: str, title: str = "") -> Markup:
    """Return a circle with a title, which browsers show as a tooltip."""
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}"><title>{}</title></circle>').format(
        x, y, radius, css_class, title
    )


def rectangle(x: float, y: float, width: float, height: float, css_class: str) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>').format(
        x, y, round(width, 1), height, css_class
    )


def shorten(name: str) -> str:
    """Return a name that fits into the column of names, cut in its middle."""
    if len(name) <= LONGEST_NAME:
        return name
    # Arms of one workflow differ at the end.
    tail = LONGEST_NAME // 2
    return f"{name[: LONGEST_NAME - tail - 1]}…{name[-tail:]}"


def horizontal_axis(scale: Scale, top: float, bottom: float, caption: str) -> list[Markup]:
    """Return vertical grid lines with their values and the caption below them."""
    parts = []
    for tick in scale.ticks():
        x = scale.to_pixels(tick)
        parts += [
            line(x, top, x, bottom, "grid"),
            text(x, bottom + 16, format_number(tick), "tick"),
        ]
    return [*parts, text((scale.start + scale.end) / 2, bottom + 34, caption, "tick")]


def vertical_axis(scale: Scale, left: float, right: float) -> list[Markup]:
    """Return horizontal grid lines with their values on the left."""
    parts = []
    for tick in scale.ticks():
        y = scale.to_pixels(tick)
        parts += [
            line(left, y, right, y, "grid"),
            text(left - 6, y + 4, format_number(tick), "name"),
        ]
    return parts
