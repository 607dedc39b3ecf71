"""Scales, curves, and all pictures of the kept runs: complete, readable, and safe."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import builders
import built_answers
import built_measurements
import pytest
from kept.runs import NAMES, decide_run
from markupsafe import Markup

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.measurement import BuildSeconds, CallSeconds, Cell
from advisor.report.pictures import Pictures, draw
from advisor.report.plots import Axis, Scale, horizontal_axis, vertical_axis
from advisor.report.speedup_pictures import speedup_curves
from advisor.report.svg import LONGEST_NAME, Picture, marks_of, place, short_names
from probes.shape import Shape

#: Width of a character of 12 pixels in common sans-serif fonts, and height of a line.
CHARACTER_WIDTH, LINE_HEIGHT = 6.0, 11.0
TEXT = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)" class="([\w ]+)">([^<]*)</text>')


class Box(NamedTuple):
    text: str
    left: float
    right: float
    baseline: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and abs(self.baseline - other.baseline) < LINE_HEIGHT
        )


def boxes(drawing: Markup) -> list[Box]:
    """Return the texts of a drawing, wherever their class anchors them."""
    found = []
    for x, y, css_class, text in TEXT.findall(drawing):
        content = Markup(text).unescape()
        width = CHARACTER_WIDTH * len(content)
        before = 0.5 if css_class == "tick" else 1.0 if css_class == "value" else 0.0
        found.append(
            Box(content, float(x) - before * width, float(x) + (1 - before) * width, float(y))
        )
    return found


def all_pictures(pictures: Pictures) -> list[Picture]:
    values = [getattr(pictures, name) for name in pictures.__struct_fields__]
    return [
        each
        for value in values
        for each in (value if isinstance(value, tuple) else (value,))
        if each is not None
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_texts_of_a_picture_overlap_or_leave_it(name: str) -> None:
    pictures = all_pictures(draw(decide_run(name)))
    for title, drawing in ((each.title, each.drawing) for each in pictures):
        placed, width = boxes(drawing), float(drawing.split()[3])
        assert placed, title
        for box in placed:
            assert -2 <= box.left <= box.right <= width + 2, (title, box)
        overlapping = [
            (one.text, two.text)
            for one, two in itertools.combinations(placed, 2)
            if one.overlaps(two)
        ]
        assert overlapping == [], title


def test_a_run_of_several_batch_sizes_has_every_picture() -> None:
    found = draw(decide_run("h200-ffn-multilayer-tinyllama-bfloat16"))
    missing = {name for name in found.__struct_fields__ if getattr(found, name) in {None, ()}}
    # Errors were not kept in that version, and there is one platform.
    assert missing <= {"accuracy", "cascade"}
    (curves,) = found.speedups
    # Thirteen arms at four batch sizes, and the band of noise.
    assert len(re.findall("<polygon|<circle", curves.drawing)) == 13 * 4 + 1
    assert curves.key.count("<li>") == 13


def test_errors_have_a_picture_where_an_arm_is_not_exact_with_a_limit_that_is_near() -> None:
    cases = (("exact", 1, None), ("close", 1, False), ("close", 1e-4, True))
    for kind, tolerance, has_limit in cases:
        made, checked = built_answers.answer(), (builders.checked(accuracy_class=kind),)
        made = built_answers.with_measurement(made, "compiled", correctness=checked)
        picture = draw(builders.replace(made, tolerance=tolerance)).accuracy
        assert (picture and "allowed" in picture.drawing) is has_limit


def test_a_run_without_an_answer_has_no_pictures() -> None:
    assert all_pictures(draw(built_answers.answer(recommendation=None, scores=()))) == []


def test_names_are_escaped() -> None:
    hostile = "</text><script>compiled"
    made = built_answers.with_score(built_answers.answer(), "compiled", arm=hostile)
    made = built_answers.with_measurement(made, "compiled", arm=hostile)
    pictures = all_pictures(draw(built_answers.with_advice(made, arm=hostile)))
    assert any("&lt;script" in picture.drawing + picture.key for picture in pictures)
    assert not any("<script" in picture.drawing + picture.key for picture in pictures)


LOGARITHMIC, LINEAR = Axis("requests"), Axis("requests", is_logarithmic=False)


def test_a_linear_scale_has_round_ticks() -> None:
    scale = Scale(LINEAR, 0.93, 2.07, 0, 100)
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
    assert Scale(LOGARITHMIC, low, high, 0, 100).ticks() == pytest.approx(ticks)


def test_an_axis_may_fix_its_ends_and_ticks() -> None:
    scale = Axis("batch", ticks=(1, 4, 16), low=0.8, high=20).scale([1, 4, 16], 0, 100)
    assert (scale.low, scale.high, scale.ticks()) == (0.8, 20, (1, 4, 16))
    assert [scale.to_pixels(each) for each in (0.1, 0.8, 20, 100)] == [0, 0, 100, 100]


def test_values_on_an_axis_do_not_overlap() -> None:
    scale = Scale(LOGARITHMIC, 1, 1e8, 0, 300)
    drawn = "".join(horizontal_axis(scale, 0, 100))
    labels = re.findall(r'<text x="([\d.]+)" [^>]*>([\d,M]+)<', drawn)
    assert len(labels) < len(scale.ticks()) == drawn.count("<line")
    ends = [(float(x) - 4.4 * len(text), float(x) + 4.4 * len(text)) for x, text in labels]
    assert all(one[1] < two[0] for one, two in itertools.pairwise(ends))


def test_small_errors_on_an_axis_have_an_exponent() -> None:
    drawn = "".join(horizontal_axis(Scale(LOGARITHMIC, 1e-5, 0.1, 0, 600), 0, 100))
    labels = re.findall(r'class="tick">([^<]+)<', drawn)
    assert labels == ["1e-05", "1e-04", "0.001", "0.01", "0.1", "requests"]


def test_values_of_a_vertical_axis_do_not_overlap() -> None:
    drawn = "".join(vertical_axis(Scale(Axis("", ticks=(10, 20, 30, 40, 50, 60)), 9, 66, 120, 0)))
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
    answer = built_answers.answer()
    for arm, seconds, cold in (("compiled", 0.1, 10.0), (builders.BASELINE, 0.4, 0.0)):
        answer = built_answers.with_measurement(
            answer,
            arm,
            cells=(cell(1, seconds), cell(8, 4 * seconds)),
            build_seconds=BuildSeconds(cold=cold, warm=None),
        )
    return answer, answer.ranking


def test_marks_of_32_arms_differ() -> None:
    assert len({place(number) for number in range(32)}) == 32


def test_marks_show_the_advised_arm_and_the_baseline() -> None:
    answer, ranking = two_arms()
    for baseline in (builders.BASELINE, "compiled"):
        marks = marks_of(built_answers.with_results(answer, baseline=baseline), ranking)
        assert [arm for arm, mark in marks.items() if mark.is_advised] == ["compiled"]
        assert [arm for arm, mark in marks.items() if mark.is_baseline] == [baseline]


def test_speed_ups_by_shape_have_an_interval_each() -> None:
    answer, ranking = two_arms()
    marks = marks_of(answer, ranking)
    one, eight = Shape(1), Shape(8)
    (picture,) = speedup_curves(ranking, (one, eight), {one: 0.02, eight: None}, marks)
    axis = re.findall(r'<text x="[\d.]+" y="[\d.]+" class="tick">(\d+)<', picture.drawing)
    assert axis == ["1", "8"]
    assert picture.drawing.count(' bar"') == 4
    assert picture.drawing.count('class="noise"') == 1
    assert speedup_curves(ranking, (one,), {}, marks) == ()
