"""All pictures of the kept runs: complete, readable, and safe."""

from __future__ import annotations

import itertools
import pathlib
import re
from typing import NamedTuple

import builders
import built_answers
import msgspec
import pytest
from built_answers import with_advice, with_measurement, with_score
from markupsafe import Markup

from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer
from advisor.report.charts.pictures import Pictures, draw
from advisor.report.charts.svg import Picture

EVIDENCE = pathlib.Path(__file__).parents[3] / "stacks" / "evidence"
#: Width of a character of 12 pixels in common sans-serif fonts, and height of a line.
CHARACTER_WIDTH, LINE_HEIGHT = 6.0, 11.0
TEXT = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)" class="([\w ]+)">([^<]*)</text>')


class Box(NamedTuple):
    """The place of a text in a picture."""

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


def pictures_of(answer: Answer) -> Pictures:
    return draw(answer, answer.ranked, [cell.shape for cell in answer.ranked[0].cells])


def kept(name: str) -> Answer:
    """Return a kept run as `report` opens it."""
    answer = msgspec.json.decode((EVIDENCE / name).read_bytes(), type=Answer)
    return decide_again(answer, builders.shipped_catalogue())


RUNS = sorted(file.name for file in EVIDENCE.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_no_texts_of_a_picture_overlap_or_leave_it(name: str) -> None:
    pictures = all_pictures(pictures_of(kept(name)))
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
    found = pictures_of(kept("h200-ffn-multilayer-tinyllama-bfloat16.json"))
    missing = {name for name in found.__struct_fields__ if getattr(found, name) in {None, ()}}
    # Errors were not kept in that version, and there is one platform.
    assert missing <= {"accuracy", "cascade"}
    (curves,) = found.speedups
    # Thirteen arms at four batch sizes, and the band of noise.
    assert len(re.findall("<polygon|<circle", curves.drawing)) == 13 * 4 + 1
    assert curves.key.count("<li>") == 13


@pytest.mark.parametrize(("accuracy_class", "has_picture"), [("exact", False), ("close", True)])
def test_errors_have_a_picture_where_an_arm_is_not_exact(
    accuracy_class: str, *, has_picture: bool
) -> None:
    answer = built_answers.answer()
    checked = builders.checked(accuracy_class=accuracy_class)
    made = with_measurement(answer, "compiled", correctness=(checked,))
    assert (pictures_of(made).accuracy is not None) is has_picture


def test_a_run_without_an_answer_has_no_pictures() -> None:
    found = draw(built_answers.answer(recommendation=None), [], [])
    assert all_pictures(found) == []


def test_names_are_escaped() -> None:
    hostile = "</text><script>compiled"
    made = with_score(built_answers.answer(), "compiled", arm=hostile)
    made = with_measurement(made, "compiled", arm=hostile)
    pictures = all_pictures(pictures_of(with_advice(made, arm=hostile)))
    assert any("&lt;script" in picture.drawing + picture.key for picture in pictures)
    assert not any("<script" in picture.drawing + picture.key for picture in pictures)
