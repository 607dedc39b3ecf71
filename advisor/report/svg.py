"""Elements of inline SVG with classes that the style sheet colours, and the marks of the arms.

No element has a style of its own: the page's content security policy forbids it. A table next to
each picture has the same figures for readers that cannot see it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from advisor.domain.answer import Answer, RankedArm

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
    #: Items of a list of marks and names, which the page shows below it.
    key: Markup = Markup("")


def picture(
    title: str, width: float, height: float, parts: Sequence[Markup], key: Sequence[Markup] = ()
) -> Picture:
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">').format(
        round(width), round(height), title
    )
    return Picture(title, head + Markup("").join(parts) + Markup("</svg>"), Markup("").join(key))


def element(name: str, css_class: str, content: Markup | str = "", **places: float | str) -> Markup:
    """Return an element with rounded places, such as `x1=0.5`, and its content escaped."""
    values = {
        each.replace("_", "-"): value if isinstance(value, str) else round(value, 1)
        for each, value in places.items()
    }
    attributes = Markup("").join(Markup(' {}="{}"').format(*each) for each in values.items())
    return Markup('<{}{} class="{}">{}</{}>').format(name, attributes, css_class, content, name)


def text(x: float, y: float, content: str, css_class: str = "label") -> Markup:
    return element("text", css_class, content, x=x, y=y)


def line(x1: float, y1: float, x2: float, y2: float, css_class: str) -> Markup:
    return element("line", css_class, x1=x1, y1=y1, x2=x2, y2=y2)


def path(kind: str, places: Sequence[Place], css_class: str, title: str = "") -> Markup:
    """Return a `polyline`, or a `polygon` with a tooltip."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return element(kind, css_class, tooltip(title), points=points)


def circle(x: float, y: float, radius: float, css_class: str, title: str = "") -> Markup:
    return element("circle", css_class, tooltip(title), cx=x, cy=y, r=radius)


def marker(x: float, y: float, shape: int, css_class: str, title: str = "") -> Markup:
    """Return a circle (0), square, triangle or diamond around a place."""
    if not CORNERS[shape]:
        return circle(x, y, MARKER_RADIUS, css_class, title)
    corners = [
        (x + across * MARKER_RADIUS, y + up * MARKER_RADIUS) for across, up in CORNERS[shape]
    ]
    return path("polygon", corners, css_class, title)


def tooltip(title: str) -> Markup:
    return Markup("<title>{}</title>").format(title) if title else Markup("")


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

    def key_item(self, note: str = "") -> Markup:
        head = Markup('<svg viewBox="-6 -6 12 12" class="chart" aria-hidden="true">')
        drawn = head + marker(0, 0, self.shape, self.css_class) + Markup("</svg>")
        notes = [self.name, "(baseline)" if self.is_baseline else "", note]
        name = Markup('<span class="{}">{}</span>').format(
            "strong" if self.is_advised else "", " ".join(filter(None, notes))
        )
        return Markup("<li>{} {}</li>").format(drawn, name)


def marks_of(answer: Answer, ranking: Sequence[RankedArm]) -> dict[str, Mark]:
    """Return the mark of each ranked arm; 32 arms have different ones."""
    advised = answer.recommendation.arm if answer.recommendation else None
    baseline, names = answer.results.baseline, short_names([ranked.arm for ranked in ranking])
    return {
        arm: Mark(name, *place(number), is_advised=arm == advised, is_baseline=arm == baseline)
        for number, (arm, name) in enumerate(names.items())
    }


def place(number: int) -> tuple[int, int]:
    """Return colour and shape of the series with this number."""
    return number % COLOURS, (number + number // COLOURS) % len(CORNERS)


#: Characters of a name that fit into a row.
LONGEST_NAME = 40
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
