"""The map of the weights: which arm leads at every weighting of the three Ps. Exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from advisor.decide.sensitivity import leading_regions
from advisor.domain.answer import RankedArm
from advisor.domain.constraints import PILLARS, Priorities
from advisor.report.charts.plots import NAME_HEIGHT
from advisor.report.charts.svg import (
    Mark,
    Picture,
    Place,
    circle,
    key_item,
    marker,
    picture,
    polygon,
    text,
)
from advisor.text_format import format_number, format_share

#: Corners of the map: all weight on performance, productivity or portability.
CORNERS: tuple[Place, ...] = ((215.0, 34.0), (40.0, 310.0), (390.0, 310.0))
HEIGHT, LEGEND_TOP = 350, 48
MARKS_LEFT, NAMES_LEFT = 470, 482
#: A region with a smaller share of the weightings has no marker.
SMALLEST_MARKED_SHARE = 0.01
WHOLE = 100.0


def weight_map(
    ranked: Sequence[RankedArm],
    priorities: Priorities,
    shares: Mapping[str, float],
    marks: Mapping[str, Mark],
) -> Picture | None:
    """Return the regions in which each arm leads, with the present weights.

    `shares` are those of the regions; None without them.
    """
    if not shares:
        return None
    viable = [entry.scored for entry in ranked if entry.arm in shares]
    regions = {
        arm: [_pixels((x, y, 1 - x - y)) for x, y in ((float(x), float(y)) for x, y in corners)]
        for arm, corners in leading_regions(viable, priorities).items()
    }
    parts = []
    for arm, region in regions.items():
        title = f"{arm} leads for {format_share(shares[arm])} of all weightings"
        css_class = f"region s{marks[arm].colour}"
        parts.append(polygon(region, css_class, title))
    for arm, region in regions.items():
        if shares[arm] > SMALLEST_MARKED_SHARE:
            x, y = _centre(region)
            parts.append(marker(x, y, marks[arm].shape, marks[arm].css_class))
    now = tuple(getattr(priorities, name) / WHOLE for name in PILLARS)
    parts += [*_corner_names(), *_present(_pixels(now), priorities)]
    key = [Markup("<li>{}</li>").format(_ring_note(priorities))]
    for row, arm in enumerate(sorted(regions, key=lambda arm: -shares[arm])):
        y, mark = LEGEND_TOP + row * NAME_HEIGHT, marks[arm]
        name = f"{mark.name}  {format_share(shares[arm])}"
        parts += [
            marker(MARKS_LEFT, y, mark.shape, f"{mark.css_class} legend"),
            text(NAMES_LEFT, y + 4, name, "label legend"),
        ]
        key.append(key_item(mark.shape, mark.css_class, name))
    height = max(HEIGHT, LEGEND_TOP + len(regions) * NAME_HEIGHT)
    return picture("The arm that leads at each weighting of the three Ps", height, parts, key)


def _centre(region: Sequence[Place]) -> Place:
    return sum(x for x, _ in region) / len(region), sum(y for _, y in region) / len(region)


def _pixels(weights: Sequence[float]) -> Place:
    across, down = (
        sum(weight * corner[axis] for weight, corner in zip(weights, CORNERS, strict=True))
        for axis in (0, 1)
    )
    return across, down


def _corner_names() -> list[Markup]:
    (top_x, top_y), (left_x, left_y), (right_x, right_y) = CORNERS
    return [
        text(top_x, top_y - 12, "100 % performance", "tick"),
        text(left_x - 30, left_y + 20, "100 % productivity", "note"),
        text(right_x + 30, right_y + 20, "100 % portability", "value"),
    ]


def _present(place: Place, priorities: Priorities) -> list[Markup]:
    weights = ", ".join(f"{name} {getattr(priorities, name):g} %" for name in PILLARS)
    return [
        circle(*place, 7, "present", f"the question's weights: {weights}"),
        text(MARKS_LEFT - 6, 26, _ring_note(priorities), "label legend"),
    ]


def _ring_note(priorities: Priorities) -> str:
    weights = " / ".join(format_number(getattr(priorities, name)) for name in PILLARS)
    return f"ring: the question's weights, {weights}"
