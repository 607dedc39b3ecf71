"""Compare accuracy, speed and memory: the arms on the Pareto front."""

from __future__ import annotations

import builders
import msgspec
import pytest
from advisor.report.documents.trade_off import find_trade_offs
from advisor.report.documents.workflow_entry import Correctness, WorkflowEntry

from advisor.domain.accuracy import Accuracy, MetricLoss, TrainedLoss
from advisor.domain.check_events import Checked
from advisor.domain.interval import Interval
from advisor.domain.question import WeightFormat
from advisor.report import markdown, page
from advisor.report.exports import csv_rows
from advisor.report.sections import trade_off


def entry(
    arm: str, speedup: float, error: float, size: int, weights: WeightFormat | None = None
) -> WorkflowEntry:
    checked = Checked(
        batch_size=1,
        verdict="near",
        reference="float64",
        rmse=error,
        rmse_eager=0.0,
        allowed=0.0,
        max_abs=error,
        compared_elements=1,
        accuracy=Accuracy(fault="error", relative_error=error, cosine=1 - error),
    )
    return WorkflowEntry(
        id=arm,
        options=None,
        arm=arm,
        status="completed",
        numerics="quantised" if weights else "native",
        weights=weights,
        speedup=Interval(value=speedup, low=None, high=None),
        weight_bytes=size,
        correctness=Correctness(verdict="near", reference="float64", by_batch_size=(checked,)),
        rank=1,
    )


NATIVE = [entry("eager", 1.0, 1e-7, 400), entry("compiled", 1.5, 1e-7, 400)]


def test_without_a_quantised_arm_there_is_no_table() -> None:
    assert find_trade_offs(NATIVE) == ()


def test_an_arm_that_is_nowhere_better_is_not_on_the_front() -> None:
    rows = find_trade_offs(
        [*NATIVE, entry("q8", 3.0, 1e-2, 100, "int8"), entry("bad", 2.0, 2e-2, 100, "int8")]
    )
    assert {row.arm for row in rows if row.on_front} == {"compiled", "q8"}
    shares = {row.arm: row.weight_share for row in rows}
    assert shares["q8"] == pytest.approx(0.25)
    assert shares["eager"] == 1.0


def test_equal_arms_are_both_on_the_front() -> None:
    rows = find_trade_offs(
        [entry("one", 2.0, 1e-2, 100, "int8"), entry("two", 2.0, 1e-2, 100, "int8")]
    )
    assert all(row.on_front for row in rows)
    assert {row.weight_share for row in rows} == {None}, "no native arm has a rank"


def test_a_metric_of_native_arms_is_a_table_too() -> None:
    metric = MetricLoss(value=0.9, baseline=1.0, recovery=0.9)
    loss = TrainedLoss(basis="metric", loss_class="worse", metric=metric)
    rows = find_trade_offs([msgspec.structs.replace(each, trained_loss=loss) for each in NATIVE])
    assert [row.loss_class for row in rows] == ["worse", "worse"]


def test_the_class_is_in_every_report() -> None:
    loss = TrainedLoss(basis="text", loss_class="B")
    made = builders.document()
    entries = tuple(
        msgspec.structs.replace(each, numerics="quantised", weights="int8", trained_loss=loss)
        if each.arm == "compiled"
        else each
        for each in made.workflows
    )
    document = msgspec.structs.replace(made, workflows=entries, trade_off=find_trade_offs(entries))
    (title, (head, *rows)), *_ = trade_off.titled_tables(document)
    assert rows[0][head.index("class")] == "B"
    assert title in page.render(document)
    lines = markdown.render(document).splitlines()
    cells = [
        cell.strip() for line in lines if line.startswith("| compiled") for cell in line.split("|")
    ]
    assert "B" in cells
    assert [row["loss_class"] for row in csv_rows.rows(document) if row["arm"] == "compiled"] == [
        "B"
    ]
