"""What the curves and the scattered points of the pictures are."""

from __future__ import annotations

import re

import builders
import built_answers
import pytest
from report_runs import with_measurement

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.interval import Interval
from advisor.domain.measurement import BuildSeconds, CallSeconds, Cell, Throughput
from advisor.report.charts.batch_sizes import latency_chart, throughput_chart
from advisor.report.charts.build_costs import break_even_chart
from advisor.report.charts.marks import marks_of, place
from advisor.report.charts.text_latency import pareto_front


def cell(batch_size: int, seconds: float) -> Cell:
    return Cell(
        batch_size=batch_size,
        seconds=CallSeconds(median=seconds, low=seconds * 0.9, high=seconds * 1.1, samples=9),
        throughput=Throughput(value=batch_size / seconds, unit="samples/s"),
        speedup=Interval(value=0.4 / seconds, low=None, high=None),
        tflops=None,
    )


def two_arms(build: float = 10.0) -> tuple[Answer, tuple[RankedArm, ...]]:
    """Return an answer and its two ranked arms; the build of the fast one takes `build`."""
    answer = built_answers.answer()
    for arm, seconds, cold in (("compiled", 0.1, build), (builders.BASELINE, 0.4, 0.0)):
        answer = with_measurement(
            answer,
            arm,
            cells=(cell(1, seconds), cell(8, 4 * seconds)),
            build_seconds=BuildSeconds(cold=cold, warm=None),
        )
    return answer, answer.ranked


def test_marks_of_32_arms_differ() -> None:
    assert len({place(number) for number in range(32)}) == 32


def test_marks_show_the_advised_arm_and_the_baseline() -> None:
    marks = marks_of(*two_arms())
    assert [(mark.is_advised, mark.is_baseline) for mark in marks.values()] == [
        (True, False),
        (False, True),
    ]


def test_throughput_and_latency_share_the_axis_of_batch_sizes() -> None:
    answer, ranked = two_arms()
    marks = marks_of(answer, ranked)
    pictures = [
        picture
        for chart in (throughput_chart, latency_chart)
        if (picture := chart(ranked, (1, 8), marks))
    ]
    assert len(pictures) == 2
    axes = [
        re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="tick">(\d+)<', p.drawing)
        for p in pictures
    ]
    assert axes[0] == axes[1]
    assert [text for _, text in axes[0]] == ["1", "8"]
    # An interval for each arm and batch size.
    assert all(picture.drawing.count(' bar"') == 4 for picture in pictures)
    assert throughput_chart(ranked, (1,), marks) is None


def test_a_curve_crosses_the_baseline_where_the_build_has_paid_for_itself() -> None:
    answer, ranked = two_arms(build=30.0)
    picture = break_even_chart(ranked, 1, marks_of(answer, ranked))
    assert picture is not None
    (curve,) = re.findall(r'<polyline points="([^"]+)" class="series', picture.drawing)
    (line,) = re.findall(r'<polyline points="([^"]+)" class="baseline"', picture.drawing)
    heights = [tuple(map(float, each.split(","))) for each in curve.split()]
    height = float(line.split()[0].split(",")[1])
    crossing = next(x for x, y in heights if y > height)
    # 30 s are saved after 100 requests of 0.3 s; the axis ends at 1,000.
    left, right = (float(each.split(",")[0]) for each in line.split())
    assert (crossing - left) / (right - left) == pytest.approx(2 / 3, abs=0.03)


def test_the_curve_of_an_arm_that_never_pays_is_shown() -> None:
    answer, ranked = two_arms(build=2000.0)
    slow = with_measurement(answer, "compiled", cells=ranked[1].cells)
    picture = break_even_chart(slow.ranked, 1, marks_of(answer, ranked))
    assert picture is not None
    (curve,) = re.findall(r'<polyline points="([^"]+)" class="series', picture.drawing)
    assert len(curve.split()) > 10


def test_no_curve_without_a_baseline() -> None:
    answer, ranked = two_arms()
    assert break_even_chart(ranked[:1], 1, marks_of(answer, ranked)) is None
    assert break_even_chart(ranked, 64, marks_of(answer, ranked)) is None


def test_the_front_has_the_points_that_no_other_one_beats() -> None:
    points = [(10.0, 5.0), (20.0, 5.0), (30.0, 9.0), (25.0, 9.5), (5.0, 4.0), (30.0, 12.0)]
    assert pareto_front(points) == ((5.0, 4.0), (20.0, 5.0), (30.0, 9.0))
