"""The map of the weights: which arm leads at every weighting of the three Ps. Exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from markupsafe import Markup

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

#: Shares of the three Ps; they sum to 1.
Weights = tuple[float, float, float]
ALL_WEIGHTS: tuple[Weights, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


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
    regions = find_regions(
        {entry.arm: _corner_scores(entry, priorities) for entry in ranked if entry.arm in shares},
        {entry.arm: entry.scored.speedup for entry in ranked},
    )
    parts = []
    for arm, region in regions.items():
        title = f"{arm} leads for {format_share(shares[arm])} of all weightings"
        css_class = f"region s{marks[arm].colour}"
        parts.append(polygon([_pixels(weights) for weights in region], css_class, title))
    for arm, region in regions.items():
        if shares[arm] > SMALLEST_MARKED_SHARE:
            x, y = _pixels(_centre(region))
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


def _corner_scores(entry: RankedArm, priorities: Priorities) -> Weights:
    """Return the arm's scores with all weight on one P; the score is linear between them."""
    grades = {name: rating.grade for name, rating in entry.scored.ratings.items()}
    performance, productivity, portability = (
        msgspec.structs.replace(
            priorities, **{name: WHOLE if name == pillar else 0.0 for name in PILLARS}
        ).weigh(grades)
        for pillar in PILLARS
    )
    return performance, productivity, portability


def find_regions(
    scores: Mapping[str, Weights], speedups: Mapping[str, float]
) -> dict[str, list[Weights]]:
    """Return the convex region in which each arm leads; none for an arm that leads nowhere.

    Of arms that score the same at all weights, the fastest has the region.
    """
    distinct: dict[Weights, str] = {}
    for arm in sorted(scores, key=lambda arm: (-speedups.get(arm, 0.0), arm)):
        distinct.setdefault(scores[arm], arm)
    regions = {}
    for own, arm in distinct.items():
        region = list(ALL_WEIGHTS)
        for other in distinct:
            region = _clip(region, tuple(one - two for one, two in zip(own, other, strict=True)))
        if len(region) >= len(ALL_WEIGHTS):
            regions[arm] = region
    return regions


def _clip(region: Sequence[Weights], lead: Sequence[float]) -> list[Weights]:
    """Return the part of a convex region where the lead over another arm is not negative."""
    kept: list[Weights] = []
    for number, here in enumerate(region):
        before = region[number - 1]
        at_before, at_here = (
            sum(weight * each for weight, each in zip(point, lead, strict=True))
            for point in (before, here)
        )
        if at_before * at_here < 0:
            share = at_before / (at_before - at_here)
            first, second, third = (
                one + share * (two - one) for one, two in zip(before, here, strict=True)
            )
            kept.append((first, second, third))
        if at_here >= 0:
            kept.append(here)
    return kept


def _centre(region: Sequence[Weights]) -> Sequence[float]:
    return [sum(each) / len(region) for each in zip(*region, strict=True)]


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
