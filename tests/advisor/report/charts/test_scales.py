"""Scales, and the curves drawn on them."""

from __future__ import annotations

import itertools
import re

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from built_answers import with_measurement

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import BuildSeconds, CallSeconds, Cell
from advisor.report.charts.plots import (
    Axis,
    Scale,
    horizontal_axis,
    vertical_axis,
)
from advisor.report.charts.speedups import speedup_curves
from advisor.report.charts.svg import LONGEST_NAME, marks_of, place, short_names
from probes.wire.shape import Shape


def test_a_linear_scale_has_round_ticks() -> None:
    scale = Scale(0.93, 2.07, 0, 100)
    assert scale.ticks() == (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    assert (scale.to_pixels(0.93), scale.to_pixels(2.07)) == (0, 100)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.9, 60, (1, 2, 5, 10, 20, 50)),
        (0.9, 2e4, (1, 10, 100, 1000, 10000)),
        # Fewer than two round values: those of a linear scale.
        (101, 119, (102.5, 105, 107.5, 110, 112.5, 115, 117.5)),
    ],
)
def test_a_logarithmic_scale_has_ticks_however_narrow_it_is(
    low: float, high: float, ticks: tuple[float, ...]
) -> None:
    assert Scale(low, high, 0, 100, is_logarithmic=True).ticks() == pytest.approx(ticks)


def test_an_axis_may_fix_its_ends_and_ticks() -> None:
    scale = Axis("batch", ticks=(1, 4, 16), low=0.8, high=20).scale([1, 4, 16], 0, 100)
    assert (scale.low, scale.high, scale.ticks()) == (0.8, 20, (1, 4, 16))
    assert [scale.to_pixels(each) for each in (0.1, 0.8, 20, 100)] == [0, 0, 100, 100]


def test_values_on_an_axis_do_not_overlap() -> None:
    scale = Scale(1, 1e8, 0, 300, is_logarithmic=True)
    drawn = "".join(horizontal_axis(scale, 0, 100, "requests"))
    labels = re.findall(r'<text x="([\d.]+)" [^>]*>([\d,M]+)<', drawn)
    assert len(labels) < len(scale.ticks()) == drawn.count("<line")
    ends = [(float(x) - 3.3 * len(text), float(x) + 3.3 * len(text)) for x, text in labels]
    assert all(one[1] < two[0] for one, two in itertools.pairwise(ends))


def test_values_of_a_vertical_axis_do_not_overlap() -> None:
    scale = Scale(9, 66, 120, 0, is_logarithmic=True)
    narrow = msgspec.structs.replace(scale, fixed_ticks=(10, 20, 30, 40, 50, 60))
    drawn = "".join(vertical_axis(narrow, 0, 100))
    labels = [float(y) for y in re.findall(r'<text [^>]*y="([\d.]+)"', drawn)]
    assert 2 <= len(labels) < drawn.count("<line") == 6
    assert all(one - two >= 15 for one, two in itertools.pairwise(labels))


def test_names_of_all_arms_of_the_catalogue_stay_distinct_and_fit() -> None:
    arms = [
        f"{workflow.id}/{option}"
        for workflow in builders.shipped_catalogue().workflows
        for option in (*workflow.arms, "default")
    ]
    shown = short_names(arms)
    assert len(set(shown.values())) == len(set(arms))
    assert max(map(len, shown.values())) <= LONGEST_NAME


def test_long_names_lose_their_beginning_at_the_end_of_a_word() -> None:
    long = "torch-compile-inductor-static-cache/loop-compiled"
    assert short_names(["eager", long]) == {
        "eager": "eager",
        long: "…inductor-static-cache/loop-compiled",
    }


def test_names_with_equal_ends_stay_whole() -> None:
    names = [f"{head}-{'x' * LONGEST_NAME}" for head in ("one", "two")]
    assert short_names(names) == dict(zip(names, names, strict=True))


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
