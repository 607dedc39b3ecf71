"""Plots of several arms on two axes: curves that are named at their ends, and scattered points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from advisor.report.charts.marks import Mark, spread
from advisor.report.charts.scales import Axis, Scale, horizontal_axis, vertical_axis
from advisor.report.charts.svg import (
    Picture,
    Place,
    key_item,
    line,
    marker,
    picture,
    polygon,
    polyline,
    text,
)

LEFT, RIGHT, TOP = 66, 530, 26
#: Where the marks and the names of the arms begin.
MARKS_LEFT, NAMES_LEFT = 560, 572
LEAST_HEIGHT, NAME_HEIGHT = 260, 17
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
    #: Follows its name.
    note: str = ""


class Guide(NamedTuple):
    """A line that is not of an arm, such as a limit, through places in values, or a filled area."""

    css_class: str
    places: tuple[Place, ...]
    name: str = ""
    is_area: bool = False


class Frame(NamedTuple):
    """The axes of a plot: its scales and the lower end."""

    across: Scale
    upward: Scale
    bottom: float
    parts: list[Markup]

    def place(self, x: float, y: float) -> Place:
        """Return the pixels of a point; values outside the axes move to their ends."""
        return (
            self.across.to_pixels(self.across.clamp(x)),
            self.upward.to_pixels(self.upward.clamp(y)),
        )


def line_plot(
    title: str,
    series: Sequence[Series],
    across: Axis,
    upward: Axis,
    guides: Sequence[Guide] = (),
) -> Picture:
    """Return a curve with intervals for each arm, named to the right of its end."""
    frame = _frame(series, across, upward, guides)
    parts = [*frame.parts, *_draw_guides(frame, guides)]
    step = min(3.0, 24 / len(series))
    curves = [
        _curve(frame, each, (number - (len(series) - 1) / 2) * step)
        for number, each in enumerate(series)
    ]
    # The advised arm lies over the others.
    for number in sorted(range(len(series)), key=lambda number: series[number].mark.is_advised):
        parts += curves[number]
    ends = [frame.place(each.points[-1].x, each.points[-1].y) for each in series]
    heights = spread([y for _, y in ends], NAME_HEIGHT, TOP, frame.bottom)
    for each, (x, y), height in zip(series, ends, heights, strict=True):
        parts.append(polyline([(x + 6, y), (MARKS_LEFT - 12, height)], "leader"))
        parts += _name(each, height)
    return picture(title, frame.bottom + CAPTION_HEIGHT, parts, _key(series))


def scatter_plot(
    title: str,
    series: Sequence[Series],
    across: Axis,
    upward: Axis,
    guides: Sequence[Guide] = (),
) -> Picture:
    """Return the points of each arm with a legend."""
    frame = _frame(series, across, upward, guides)
    parts = [*frame.parts, *_draw_guides(frame, guides)]
    for number, each in enumerate(series):
        for point in each.points:
            place = frame.place(point.x, point.y)
            parts.append(marker(*place, each.mark.shape, each.mark.css_class, point.title))
        parts += _name(each, TOP + 8 + number * NAME_HEIGHT)
    return picture(title, frame.bottom + CAPTION_HEIGHT, parts, _key(series))


def _frame(series: Sequence[Series], across: Axis, upward: Axis, guides: Sequence[Guide]) -> Frame:
    bottom = TOP + max(LEAST_HEIGHT, len(series) * NAME_HEIGHT)
    points = [point for each in series for point in each.points]
    lines = [place for guide in guides for place in guide.places]
    heights = [
        value for point in points for value in (point.y, point.low, point.high) if value is not None
    ]
    horizontal = across.scale([*(p.x for p in points), *(x for x, _ in lines)], LEFT, RIGHT)
    vertical = upward.scale([*heights, *(y for _, y in lines)], bottom, TOP)
    parts = [
        *horizontal_axis(horizontal, TOP, bottom, across.caption),
        *vertical_axis(vertical, LEFT, RIGHT),
        text(4, 14, upward.caption),
    ]
    return Frame(horizontal, vertical, bottom, parts)


def _draw_guides(frame: Frame, guides: Sequence[Guide]) -> list[Markup]:
    parts = []
    for guide in guides:
        places = [frame.place(*each) for each in guide.places]
        draw = polygon if guide.is_area else polyline
        parts.append(draw(places, guide.css_class))
        if guide.name:
            parts.append(text(places[-1][0] - 4, places[-1][1] - 6, guide.name, "value"))
    return parts


def _curve(frame: Frame, series: Series, shift: float) -> list[Markup]:
    """Return one curve; `shift` moves it sideways so that intervals do not hide each other."""
    css_class = series.mark.css_class
    places = [(x + shift, y) for x, y in (frame.place(point.x, point.y) for point in series.points)]
    parts = [polyline(places, css_class)]
    for point, (x, y) in zip(series.points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = (frame.place(point.x, bound)[1] for bound in (point.low, point.high))
            parts.append(line(x, low, x, high, f"{css_class} bar"))
        parts.append(marker(x, y, series.mark.shape, css_class, point.title))
    return parts


def _name(series: Series, height: float) -> list[Markup]:
    """Return the mark and the name right of the plot, which a narrow page replaces by the key."""
    mark = series.mark
    return [
        marker(MARKS_LEFT, height, mark.shape, f"{mark.css_class} legend"),
        text(
            NAMES_LEFT,
            height + 4,
            _label(series),
            "label legend strong" if mark.is_advised else "label legend",
        ),
    ]


def _label(series: Series) -> str:
    notes = ["(baseline)" if series.mark.is_baseline else "", series.note]
    return " ".join(filter(None, [series.mark.name, *notes]))


def _key(series: Sequence[Series]) -> list[Markup]:
    return [key_item(each.mark.shape, each.mark.css_class, _label(each)) for each in series]
