"""What the curves and the scattered points of the pictures are."""

from __future__ import annotations

import re

import builders
import built_answers
import built_measurements
from report_runs import with_measurement

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import BuildSeconds, CallSeconds, Cell
from advisor.report.charts.speedups import speedup_curves
from advisor.report.charts.svg import marks_of, place
from probes.wire.shape import Shape


def cell(batch_size: int, seconds: float) -> Cell:
    calls = CallSeconds(median=seconds, low=seconds * 0.9, high=seconds * 1.1, samples=9)
    return built_measurements.cell(0.4 / seconds, 0.25, batch_size, seconds=calls)


def two_arms() -> tuple[Answer, tuple[RankedArm, ...]]:
    """Return an answer and its two ranked arms."""
    answer = built_answers.answer()
    for arm, seconds, cold in (("compiled", 0.1, 10.0), (builders.BASELINE, 0.4, 0.0)):
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


def test_speed_ups_by_shape_have_an_interval_each() -> None:
    answer, ranked = two_arms()
    marks = marks_of(answer, ranked)
    one, eight = Shape(1), Shape(8)
    (picture,) = speedup_curves(ranked, (one, eight), {one: 0.02, eight: None}, marks)
    axis = re.findall(r'<text x="[\d.]+" y="[\d.]+" class="tick">(\d+)<', picture.drawing)
    assert axis == ["1", "8"]
    assert picture.drawing.count(' bar"') == 4
    assert picture.drawing.count('class="noise"') == 1
    assert speedup_curves(ranked, (one,), {}, marks) == ()
