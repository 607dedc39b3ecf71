"""A fleet's figures as a table for data frames: a row for each workflow and batch size, and one for what has no figures."""

from __future__ import annotations

import io
import pathlib

import msgspec
import pytest
import recorded_runs

from advisor.domain.fleet import (
    FLEET_SCHEMA,
    Answered,
    Assignment,
    Attempt,
    FleetRecord,
    Order,
    Pool,
)
from advisor.pipeline.decision import decide
from advisor.report import document
from advisor.report import parquet as columns
from advisor.report.document import RunDocument
from advisor.store import Store

ORDER = Order(
    fleet_id="f",
    created="2026-11-21T12:00:00+00:00",
    models=("demo", "lost"),
    pools=(Pool(kind="H200"),),
)


@pytest.fixture
def composed(home: pathlib.Path) -> RunDocument:
    decision = decide(recorded_runs.make_run(Store(home), finished=True))
    return document.compose(decision)


@pytest.fixture
def record() -> FleetRecord:
    whole = Answered(
        assignment=Assignment(number=1, model="demo", kind="H200"),
        attempts=(Attempt(run_id="a", node="n1", device="0"),),
    )
    lost = Answered(
        assignment=Assignment(number=2, model="lost", kind="H200"),
        attempts=(),
        reason="its node was lost",
    )
    return FleetRecord(schema=FLEET_SCHEMA, order=ORDER, answered=(whole, lost))


def test_every_workflow_and_every_race_has_a_row(
    record: FleetRecord, composed: RunDocument
) -> None:
    rows = list(columns.rows(record, {"a": composed}))
    assert {row["arm"] for row in rows if "arm" in row} == {
        entry.arm for entry in composed.workflows
    }
    assert set().union(*rows) <= set(columns.COLUMNS)
    (chosen,) = [row for row in rows if row.get("recommended")]
    assert composed.recommendation is not None
    assert (chosen["arm"], chosen["trust"]) == (
        composed.recommendation.arm,
        composed.recommendation.trust,
    )
    (crashed,) = [row for row in rows if row.get("arm") == "broken"]
    assert (crashed["status"], crashed.get("seconds_median")) == ("crashed", None)
    assert [(row["model"], row["problem"]) for row in rows if "arm" not in row] == [
        ("lost", "its node was lost")
    ]


def test_a_race_that_was_given_up_has_no_figures(
    record: FleetRecord, composed: RunDocument
) -> None:
    whole, lost = record.answered
    given_up = msgspec.structs.replace(whole, reason="its node was lost")
    rows = list(
        columns.rows(msgspec.structs.replace(record, answered=(given_up, lost)), {"a": composed})
    )
    assert [(row["model"], row["run"], row["problem"], row.get("arm")) for row in rows] == [
        ("demo", "a", "its node was lost", None),
        ("lost", None, "its node was lost", None),
    ]


def test_the_file_is_read_back_with_its_types(record: FleetRecord, composed: RunDocument) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra `fleet`")
    table = parquet.read_table(io.BytesIO(columns.encode(record, {"a": composed})))
    assert table.column_names == list(columns.COLUMNS)
    rows = list(columns.rows(record, {"a": composed}))
    assert table.to_pylist() == [{name: row.get(name) for name in columns.COLUMNS} for row in rows]
