"""Draw all pictures of the HTML report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from markupsafe import Markup

from advisor.decide.sensitivity import leading_regions
from advisor.domain.accuracy import worst_error
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.constraints import PILLARS, Priorities
from advisor.domain.results import ApplicationPortability
from advisor.domain.text import format_interval, format_number, format_seconds, format_share
from advisor.report import svg
from advisor.report.formatting import format_error
from advisor.report.plots import Axis, Guide, Point, Series, plot
from advisor.report.speedup_pictures import speedup_curves, speedup_rows

#: The shortest build that the logarithmic axis shows.
SHORTEST_BUILD_SECONDS = 0.01
#: Errors below the smallest one, such as 0, are drawn this factor below it.
BELOW = 10.0
#: A limit further than this from every error would squeeze the points, so it is not drawn.
NEAR_LIMIT = 1e4
SPEED = Axis("times the baseline's speed")


class Pictures(msgspec.Struct, frozen=True, kw_only=True):
    """All pictures of a page; null for those that the run has no figures for."""

    #: Pictures by length or batch size, one for each combination of the other dimensions, and rows
    #: for each shape that is not on such an axis.
    speedups: tuple[svg.Picture, ...]
    build_cost: svg.Picture | None
    accuracy: svg.Picture | None
    weight_map: svg.Picture | None
    cascade: svg.Picture | None


def draw(answer: Answer) -> Pictures:
    question, results, advice = answer.question, answer.results, answer.recommendation
    ranking, unfit = answer.ranking, results.is_unfit
    shapes = [cell.shape for cell in ranking[0].cells] if ranking else []
    marks = svg.marks_of(answer, ranking)
    noise_floors = {each.shape: each.noise_floor for each in results.races}
    return Pictures(
        speedups=(() if unfit else speedup_curves(ranking, shapes, noise_floors, marks))
        or tuple(
            speedup_rows(ranking, shape, noise_floors.get(shape), marks, unfit=unfit)
            for shape in shapes
        ),
        # These have no intervals.
        build_cost=None if unfit else _build_cost_chart(ranking, marks),
        accuracy=None if unfit else _accuracy_chart(ranking, marks, answer.tolerance or math.inf),
        weight_map=weight_map(
            ranking, question.priorities, advice.leading_shares if advice else {}, marks
        ),
        cascade=cascade_chart(results.portability.applications if results.portability else ()),
    )


def _scatter(
    title: str,
    ranking: Sequence[RankedArm],
    marks: Mapping[str, svg.Mark],
    places: Mapping[str, tuple[float, str]],
    across: Axis,
    guides: Sequence[Guide] = (),
) -> svg.Picture | None:
    """Return the speed-up over a figure of each arm in `places`, with its text, or None."""
    series = []
    for ranked in ranking:
        if ranked.arm in places:
            x, note = places[ranked.arm]
            title_of_point = f"{ranked.arm}: {format_interval(ranked.speedup)}, {note}"
            point = Point(x, ranked.speedup.value, title=title_of_point)
            series.append(Series(marks[ranked.arm], (point,)))
    return plot(title, series, across, SPEED, guides) if series else None


def _build_cost_chart(
    ranking: Sequence[RankedArm], marks: Mapping[str, svg.Mark]
) -> svg.Picture | None:
    builds = {ranked.arm: ranked.measured.build_seconds.cold for ranked in ranking}
    places = {
        arm: (max(seconds, SHORTEST_BUILD_SECONDS), f"built in {format_seconds(seconds)} s")
        for arm, seconds in builds.items()
    }
    title = "Speed against the cost of the build"
    return _scatter(title, ranking, marks, places, Axis("seconds of the cold build"))


def _accuracy_chart(
    ranking: Sequence[RankedArm], marks: Mapping[str, svg.Mark], allowed: float
) -> svg.Picture | None:
    """Return None where all arms are exact; `allowed` is the largest error of any other."""
    checks = {ranked.arm: ranked.measured.correctness for ranked in ranking}
    known = {arm: worst_error(checked) for arm, checked in checks.items()}
    errors = {arm: error for arm, error in known.items() if error is not None}
    positive = [error for error in errors.values() if error > 0]
    is_exact = all(each.accuracy_class == "exact" for arm in errors for each in checks[arm])
    if is_exact or not positive:
        return None
    least = min(positive) / BELOW
    places = {
        arm: (max(error, least), f"error {format_error(error)}") for arm, error in errors.items()
    }
    heights = [ranked.speedup.value for ranked in ranking if ranked.arm in errors]
    limit = Guide("limit", ((allowed, max(heights)), (allowed, min(heights))), "allowed")
    is_near = allowed / max(positive) <= NEAR_LIMIT
    below = "; outputs without an error on the left" if len(positive) < len(errors) else ""
    across = Axis(f"largest relative error, or divergence of text{below}")
    title = "Speed against the error of the outputs"
    return _scatter(title, ranking, marks, places, across, [limit] if is_near else [])


def cascade_chart(applications: Sequence[ApplicationPortability]) -> svg.Picture | None:
    names = svg.short_names([each.application for each in applications])
    series, most = [], 2
    for number, each in enumerate(applications):
        known = sorted((s for s in each.efficiencies.values() if s is not None), reverse=True)
        most = max(most, len(each.efficiencies))
        points = tuple(
            Point(float(count), share, title=f"{each.application}: {format_share(share)}")
            for count, share in enumerate(known, start=1)
        )
        if points:
            series.append(Series(svg.Mark(names[each.application], *svg.place(number)), points))
    if not series:
        return None
    across = Axis(
        "platforms, each application's best first",
        is_logarithmic=False,
        ticks=tuple(map(float, range(1, most + 1))),
        low=0.8,
        high=most + 0.2,
    )
    upward = Axis(
        "efficiency against the platform's fastest workflow",
        is_logarithmic=False,
        low=-0.03,
        high=1.05,
    )
    return plot("Efficiency by platform, per application", series, across, upward)


#: Corners of the map of the weights: all weight on performance, productivity or portability.
CORNERS: tuple[svg.Place, ...] = ((215.0, 34.0), (40.0, 310.0), (390.0, 310.0))
MAP_WIDTH, MAP_HEIGHT = 640, 350
#: A region with a smaller share of the weightings has no marker.
SMALLEST_MARKED_SHARE = 0.01
WHOLE = 100.0


def weight_map(
    ranking: Sequence[RankedArm],
    priorities: Priorities,
    shares: Mapping[str, float],
    marks: Mapping[str, svg.Mark],
) -> svg.Picture | None:
    """Draw the regions of the weights in which each arm leads; None without `shares` of them."""
    if not shares:
        return None
    viable = [ranked.scored for ranked in ranking if ranked.arm in shares]
    regions = {}
    for arm, corners in leading_regions(viable, priorities).items():
        places = [(float(x), float(y)) for x, y in corners]
        regions[arm] = [_pixels((x, y, 1 - x - y)) for x, y in places]
    parts = []
    for arm, region in regions.items():
        title = f"{arm} leads for {format_share(shares[arm])} of all weightings"
        parts.append(svg.path("polygon", region, f"region s{marks[arm].colour}", title))
    for arm, region in regions.items():
        if shares[arm] > SMALLEST_MARKED_SHARE:
            # The centre of its corners.
            x, y = (sum(each) / len(region) for each in zip(*region, strict=True))
            parts.append(svg.marker(x, y, marks[arm].shape, marks[arm].css_class))
    now = [getattr(priorities, name) for name in PILLARS]
    note = f"the question's weights, {' / '.join(map(format_number, now))}"
    present = svg.circle(*_pixels([each / WHOLE for each in now]), 7, "present", note)
    leading = sorted(regions, key=lambda arm: -shares[arm])
    key = [marks[arm].key_item(format_share(shares[arm])) for arm in leading]
    key.append(Markup("<li>ring: {}</li>").format(note))
    title = "The arm that leads at each weighting of the three Ps"
    (top_x, top_y), (left_x, left_y), (right_x, right_y) = CORNERS
    parts += [
        svg.text(top_x, top_y - 12, "100 % performance", "tick"),
        svg.text(left_x - 30, left_y + 20, "100 % productivity", "note"),
        svg.text(right_x + 30, right_y + 20, "100 % portability", "value"),
        present,
    ]
    return svg.picture(title, MAP_WIDTH, MAP_HEIGHT, parts, key)


def _pixels(weights: Sequence[float]) -> svg.Place:
    across, down = (
        sum(weight * corner[axis] for weight, corner in zip(weights, CORNERS, strict=True))
        for axis in (0, 1)
    )
    return across, down
