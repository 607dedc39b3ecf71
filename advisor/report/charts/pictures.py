"""Draw all pictures of the HTML report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.catalogue.rubric_files import read_shipped_accuracy
from advisor.domain.answer import Answer, RankedArm
from advisor.report.charts.accuracy import accuracy_chart
from advisor.report.charts.batch_sizes import latency_chart, speedups_chart, throughput_chart
from advisor.report.charts.build_costs import break_even_chart, build_cost_chart
from advisor.report.charts.limits import memory_chart, roofline_chart
from advisor.report.charts.marks import marks_of
from advisor.report.charts.platforms import cascade_chart, navigation_chart
from advisor.report.charts.speedups import speedup_chart
from advisor.report.charts.svg import Picture
from advisor.report.charts.text_latency import first_token_chart, next_token_chart
from advisor.report.charts.tiers import tier_chart
from advisor.report.charts.weight_map import weight_map


class Pictures(msgspec.Struct, frozen=True, kw_only=True):
    """All pictures of a page; null for those that the run has no figures for."""

    tiers: Picture
    #: One for each batch size.
    speedups: tuple[Picture, ...]
    break_even: tuple[Picture, ...]
    speedup: Picture | None
    throughput: Picture | None
    latency: Picture | None
    first_token: Picture | None
    next_token: Picture | None
    build_cost: Picture | None
    accuracy: Picture | None
    roofline: Picture | None
    memory: Picture | None
    weight_map: Picture | None
    cascade: Picture | None
    navigation: Picture | None


def draw(answer: Answer, ranked: Sequence[RankedArm], sizes: Sequence[int]) -> Pictures:
    """Return the pictures of the ranked arms at these batch sizes."""
    marks, results, advice = marks_of(answer, ranked), answer.results, answer.recommendation
    question = answer.question
    rules = read_shipped_accuracy().with_tolerance(question.accuracy)
    applications = results.portability.applications if results.portability else ()
    noise_floors = {each.batch_size: each.noise_floor for each in results.races}
    curves = [break_even_chart(ranked, size, marks) for size in sizes]
    return Pictures(
        tiers=tier_chart(ranked, marks),
        speedups=tuple(
            speedup_chart(ranked, size, noise_floors.get(size), marks) for size in sizes
        ),
        break_even=tuple(curve for curve in curves if curve is not None),
        speedup=speedups_chart(ranked, sizes, noise_floors, marks),
        throughput=throughput_chart(ranked, sizes, marks),
        latency=latency_chart(ranked, sizes, marks),
        first_token=first_token_chart(ranked, marks),
        next_token=next_token_chart(ranked, marks),
        build_cost=build_cost_chart(ranked, marks),
        accuracy=accuracy_chart(ranked, marks, rules.close.tolerance),
        roofline=roofline_chart(ranked, marks, results.peaks, question.dtype),
        memory=memory_chart(ranked, marks),
        weight_map=weight_map(ranked, question.priorities, advice.simplex if advice else {}, marks),
        cascade=cascade_chart(applications),
        navigation=navigation_chart(applications),
    )
