"""Draw elements of inline SVG with classes that the style sheet colours.

No element has a style of its own: the page's content security policy forbids it. A table next to
each picture has the same figures for readers that cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

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
