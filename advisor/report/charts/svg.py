"""Draw elements of inline SVG with classes that the style sheet colours.

No element has a style of its own: the page's content security policy forbids it. A table next to
each picture has the same figures for readers that cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.plan import BASELINE

WIDTH = 900
#: Height of a row of a picture with one row for each arm.
ROW_HEIGHT = 26
#: Width of the column of names on the left.
NAME_COLUMN_WIDTH = 300
#: Height of such a row on a narrow page, where the name is above the row's marks.
NARROW_ROW_HEIGHT = 44
NARROW_WIDTH = 480
HALF_LABEL_WIDTH = 16


class Layout(NamedTuple):
    """Where a picture with one row for each arm has the names and the marks."""

    width: float
    #: Width of the column of names; 0 for names above the marks.
    names: float
    row_height: float

    @property
    def start(self) -> float:
        """Where a scale starts, with space for half a label of its axis."""
        return self.names or HALF_LABEL_WIDTH


WIDE = Layout(WIDTH, NAME_COLUMN_WIDTH, ROW_HEIGHT)
NARROW = Layout(NARROW_WIDTH, 0, NARROW_ROW_HEIGHT)

#: Half the size of a marker, and its corners as multiples of that; the first shape is a circle.
MARKER_RADIUS = 4.5
CORNERS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
)

#: A place in a picture, in pixels.
Place = tuple[float, float]


class Picture(msgspec.Struct, frozen=True):
    """A drawing with its title, which the page shows above it."""

    title: str
    drawing: Markup
    #: Items of a list of marks and names. A narrow page shows it below the drawing instead of the
    #: names at its right. Empty for a drawing without them.
    key: Markup = Markup("")
    #: The drawing of a narrow page; empty for a picture that has only one.
    narrow: Markup = Markup("")


#: The height of a drawing and its parts.
Drawing = tuple[float, Sequence[Markup]]


def picture(
    title: str, height: float, parts: Sequence[Markup], key: Sequence[Markup] = ()
) -> Picture:
    return Picture(title, _svg(title, (height, parts), WIDTH, "chart"), Markup("").join(key))


def picture_of_rows(title: str, draw: Callable[[Layout], Drawing]) -> Picture:
    """Return a picture with one row for each arm, in a wide and a narrow layout."""
    wide = _svg(title, draw(WIDE), WIDE.width, "chart")
    return Picture(title, wide, narrow=_svg(title, draw(NARROW), NARROW.width, "chart narrow"))


def _svg(title: str, drawing: Drawing, width: float, css_class: str) -> Markup:
    height, parts = drawing
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="{}">').format(
        width, round(height), title, css_class
    )
    return head + Markup("").join(parts) + Markup("</svg>")


def row_name(layout: Layout, y: float, name: str, *, is_strong: bool = False) -> Markup:
    """Return the name of the row whose marks are at `y`."""
    css_class = f"{'name' if layout.names else 'row'}{' strong' if is_strong else ''}"
    if layout.names:
        return text(layout.names - 12, y + 4, name, css_class)
    return text(0, y - 14, name, css_class)


def key_item(shape: int, css_class: str, name: str) -> Markup:
    """Return a list item with the mark and the name of a series."""
    head = Markup('<svg viewBox="-6 -6 12 12" class="chart" aria-hidden="true">')
    drawn = head + marker(0, 0, shape, css_class) + Markup("</svg>")
    return Markup("<li>{} {}</li>").format(drawn, name)


def text(x: float, y: float, content: str, css_class: str = "label") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(
        round(x, 1), round(y, 1), css_class, content
    )


def line(x1: float, y1: float, x2: float, y2: float, css_class: str) -> Markup:
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        *(round(each, 1) for each in (x1, y1, x2, y2)), css_class
    )


def polyline(places: Sequence[Place], css_class: str) -> Markup:
    return Markup('<polyline points="{}" class="{}"/>').format(_points(places), css_class)


def polygon(places: Sequence[Place], css_class: str, title: str = "") -> Markup:
    return Markup('<polygon points="{}" class="{}">{}</polygon>').format(
        _points(places), css_class, _tooltip(title)
    )


def circle(x: float, y: float, radius: float, css_class: str, title: str = "") -> Markup:
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(
        round(x, 1), round(y, 1), radius, css_class, _tooltip(title)
    )


def marker(x: float, y: float, shape: int, css_class: str, title: str = "") -> Markup:
    """Return a circle (0), square, triangle or diamond around a place."""
    if not CORNERS[shape]:
        return circle(x, y, MARKER_RADIUS, css_class, title)
    corners = [
        (x + across * MARKER_RADIUS, y + up * MARKER_RADIUS) for across, up in CORNERS[shape]
    ]
    return polygon(corners, css_class, title)


def rectangle(
    x: float, y: float, width: float, height: float, css_class: str, title: str = ""
) -> Markup:
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(
        *(round(each, 1) for each in (x, y, width, height)), css_class, _tooltip(title)
    )


def _tooltip(title: str) -> Markup:
    """Return a title, which browsers show as a tooltip; nothing for no text."""
    return Markup("<title>{}</title>").format(title) if title else Markup("")


def _points(places: Sequence[Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


#: Colours of the style sheet.
COLOURS = 8


class Mark(msgspec.Struct, frozen=True):
    """How one arm is drawn."""

    name: str
    colour: int
    shape: int
    is_advised: bool = False
    is_baseline: bool = False

    @property
    def css_class(self) -> str:
        advised = " advised" if self.is_advised else ""
        reference = " reference" if self.is_baseline else ""
        return f"series s{self.colour}{advised}{reference}"


def marks_of(answer: Answer, ranked: Sequence[RankedArm]) -> dict[str, Mark]:
    """Return the mark of each ranked arm; 32 arms have different ones."""
    advised = answer.recommendation.arm if answer.recommendation else None
    names = short_names([entry.arm for entry in ranked])
    return {
        arm: Mark(
            name,
            *place(number),
            is_advised=arm == advised,
            is_baseline=arm == BASELINE,
        )
        for number, (arm, name) in enumerate(names.items())
    }


def place(number: int) -> tuple[int, int]:
    """Return colour and shape of the series with this number."""
    return number % COLOURS, (number + number // COLOURS) % len(CORNERS)


#: Characters of a name that fit into a column of names.
LONGEST_NAME = 40
#: Where a name may be cut.
WORD_ENDS = re.compile(r"(?<=[-/#+])")


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return each name, or the end of a long one after an ellipsis.

    Arms of one workflow differ at the end. Names whose ends are equal stay whole.
    """
    ends = {name: _end(name) for name in dict.fromkeys(names)}
    shown = list(ends.values())
    return {name: end if shown.count(end) == 1 else name for name, end in ends.items()}


def _end(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    words = WORD_ENDS.split(name)
    for first in range(1, len(words)):
        end = "".join(words[first:])
        if len(end) < LONGEST_NAME:
            return f"…{end}"
    return f"…{name[-LONGEST_NAME + 1 :]}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return a height for each wanted one, `gap` apart in the same order, near the wanted ones.

    They lie between `low` and `high` if there is room for all.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    pushed_down = _push([wanted[index] for index in order], gap)
    pushed_up = [-each for each in reversed(_push([-wanted[index] for index in order[::-1]], gap))]
    placed = [(down + up) / 2 for down, up in zip(pushed_down, pushed_up, strict=True)]
    from_below = [-each for each in reversed(_push([-each for each in placed[::-1]], gap, -high))]
    heights = _push(from_below, gap, low)
    return [height for _, height in sorted(zip(order, heights, strict=True))]


def _push(sorted_heights: Sequence[float], gap: float, least: float | None = None) -> list[float]:
    """Return the heights, each moved to at least `gap` above the one before it."""
    moved: list[float] = []
    for height in sorted_heights:
        bound = moved[-1] + gap if moved else least
        moved.append(height if bound is None else max(height, bound))
    return moved
