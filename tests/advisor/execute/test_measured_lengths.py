"""A run at several lengths: one race for each shape, and one answer for their mix."""

from __future__ import annotations

import math

import msgspec
import pytest
import sessions

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.domain.answer import Answer, encode
from advisor.report import figures, markdown, page, parts, text_report
from probes.wire.shape import Shape

pytestmark = pytest.mark.slow

SHAPES = [Shape(1, 8), Shape(2, 8), Shape(1, 32), Shape(2, 32)]
ASKED = Answers(
    input_tokens="8,32",
    length_mix="8:3,32:1",
    batch_sizes="1,2",
    budget="1",
    all_arms=True,
    workflows="quick",
)


@pytest.fixture(scope="module")
def answer(module_context: Context) -> Answer:
    return decide(sessions.execute_run(module_context, ASKED))


def test_every_shape_has_its_race_and_counts_by_its_share(answer: Answer) -> None:
    assert [race.shape for race in answer.results.races] == SHAPES
    (quick,) = (each for each in answer.results.measurements if each.arm == "quick")
    assert {cell.shape: cell.weight for cell in quick.cells} == dict(
        zip(SHAPES, (1.5, 1.5, 0.5, 0.5), strict=True)
    )
    mean = math.fsum(cell.weight * math.log(cell.speedup.value) for cell in quick.cells) / 4
    assert math.log(quick.speedup.value) == pytest.approx(mean)


def test_the_best_arm_of_each_length_is_shown(answer: Answer) -> None:
    head, *rows = next(each.rows for each in parts.tables(answer) if each.name == "shapes")
    tokens, share, batch = (head.index(name) for name in ("tokens", "share", "batch"))
    shown = [(row[tokens], row[share], row[batch]) for row in rows]
    assert shown == [
        ("8", "38 %", "1"),
        ("8", "38 %", "2"),
        ("32", "12 %", "1"),
        ("32", "12 %", "2"),
    ]
    for output in (text_report.render(answer), markdown.render(answer), page.render(answer)):
        assert all(name in output for name in ("share", "quick", "38 %"))


def test_the_documents_have_figures_by_length(answer: Answer) -> None:
    read = msgspec.json.decode(encode(answer), type=Answer)
    assert read.recommendation is not None
    assert [each.shape for each in read.recommendation.advice_by_shape] == SHAPES
    rows = [row for row in figures.rows(read) if row["arm"] == "quick"]
    assert [(row["input_tokens"], row["batch_size"]) for row in rows] == [
        (shape.input_tokens, shape.batch_size) for shape in SHAPES
    ]
