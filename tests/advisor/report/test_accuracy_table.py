"""Compare accuracy, speed and memory: the arms on the Pareto front."""

from __future__ import annotations

import builders
import built_answers
import msgspec
from built_answers import with_measurement, with_score

from advisor.domain.accuracy import MetricLoss, TrainedLoss
from advisor.domain.answer import Answer
from advisor.domain.measurement import Measurement
from advisor.domain.question import WeightFormat
from advisor.domain.results import ScoredArm
from advisor.report import figures, markdown, page, parts
from advisor.text_format import MISSING
from probes.wire.checks import Accuracy

Arm = tuple[ScoredArm, Measurement]


def arm(name: str, speedup: float, error: float, size: int, weights: WeightFormat | None) -> Arm:
    scored = builders.scored_arm(name, speedup=speedup)
    accuracy = Accuracy(fault="error", relative_error=error, cosine=1 - error)
    return (
        msgspec.structs.replace(scored, weights=weights),
        builders.measurement(
            name,
            speedup=speedup,
            weight_bytes=size,
            correctness=(builders.checked(accuracy_class="close", accuracy=accuracy),),
        ),
    )


def answer_with(*arms: Arm) -> Answer:
    scores, measurements = zip(*arms, strict=True)
    results = msgspec.structs.replace(builders.results(), measurements=measurements)
    return built_answers.answer(scores=scores, results=results)


NATIVE = [arm("eager", 1.0, 1e-7, 400, None), arm("compiled", 1.5, 1e-7, 400, None)]


def column(answer: Answer, name: str) -> dict[str, str]:
    """Return the cells of a column by arm; empty without the table."""
    tables = [table for table in parts.tables(answer) if table.name == "accuracy"]
    head, *rows = tables[0].rows if tables else [[name]]
    return {row[0]: row[list(head).index(name)] for row in rows}


def test_without_a_quantised_arm_there_is_no_table() -> None:
    assert column(answer_with(*NATIVE), "arm") == {}


def test_an_arm_that_is_nowhere_better_is_not_on_the_front() -> None:
    quantised = [arm("q8", 3.0, 1e-2, 100, "int8"), arm("bad", 2.0, 2e-2, 100, "int8")]
    answer = answer_with(*NATIVE, *quantised)
    assert {name for name, mark in column(answer, "front").items() if mark} == {"compiled", "q8"}
    shares = column(answer, "of native")
    assert (shares["q8"], shares["eager"]) == ("25 %", "100 %")


def test_equal_arms_are_both_on_the_front() -> None:
    equal = answer_with(*(arm(name, 2.0, 1e-2, 100, "int8") for name in ("one", "two")))
    assert all(column(equal, "front").values())
    assert set(column(equal, "of native").values()) == {MISSING}, "no native arm has a rank"


def test_a_metric_of_native_arms_is_a_table_too() -> None:
    metric = MetricLoss(value=0.9, baseline=1.0, recovery=0.9)
    loss = TrainedLoss(basis="metric", loss_class="worse", metric=metric)
    lossy = with_measurement(answer_with(*NATIVE), trained_loss=loss)
    assert set(column(lossy, "class").values()) == {"worse"}


def test_the_class_is_in_every_report() -> None:
    loss = TrainedLoss(basis="text", loss_class="B")
    answer = with_score(built_answers.answer(), "compiled", weights="int8")
    answer = with_measurement(answer, "compiled", trained_loss=loss)
    assert column(answer, "class")["compiled"] == "B"
    assert parts.ACCURACY_TITLE in page.render(answer)
    lines = markdown.render(answer).splitlines()
    cells = [
        cell.strip() for line in lines if line.startswith("| compiled") for cell in line.split("|")
    ]
    assert "B" in cells
    classes = [row["loss_class"] for row in figures.rows(answer) if row["arm"] == "compiled"]
    assert classes == ["B"]
