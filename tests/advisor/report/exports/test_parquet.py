"""The figures of a fleet as Parquet rows."""

from __future__ import annotations

import io

import msgspec
import pytest
import recorded_fleet
from recorded_fleet import answered

from advisor.domain.answer import Answer
from advisor.domain.fleet import FleetRecord
from advisor.report.exports import csv_rows, parquet

#: Figures of the ranking that a data frame of a fleet needs.
FIGURES = (
    *("score", "cold_build_seconds", "peak_memory_bytes"),
    *("seconds_median", "speedup", "throughput"),
)
COLUMNS = (*parquet.FLEET_COLUMNS, *csv_rows.COLUMNS)


@pytest.fixture
def record() -> FleetRecord:
    lost = answered("H200", model="lost", number=2, reason="its node was lost")
    return recorded_fleet.record(answered("H200", "a"), lost)


def test_every_workflow_and_every_result_without_a_run_has_a_row(
    record: FleetRecord, finished_run: Answer
) -> None:
    rows = list(parquet.fleet_rows(record, {"a": finished_run}))
    assert {row["arm"] for row in rows if "arm" in row} == set(finished_run.titles)
    assert set().union(*rows) <= set(COLUMNS)
    (chosen, *_) = [row for row in rows if row.get("recommended")]
    assert finished_run.recommendation is not None
    assert (chosen["arm"], chosen["trust"]) == (
        finished_run.recommendation.arm,
        finished_run.recommendation.trust,
    )
    measured = [row for row in rows if "batch_size" in row]
    assert len(measured) == sum(len(arm.cells) for arm in finished_run.ranked)
    assert all(row.get(name) is not None for row in measured for name in FIGURES)
    (crashed,) = [row for row in rows if row.get("arm") == "broken"]
    assert (crashed["status"], crashed.get("seconds_median")) == ("crashed", None)
    assert [(row["model"], row["problem"]) for row in rows if "arm" not in row] == [
        ("lost", "its node was lost")
    ]


def test_an_abandoned_race_has_no_figures(record: FleetRecord, finished_run: Answer) -> None:
    whole, lost = record.answered
    given_up = msgspec.structs.replace(whole, reason="its node was lost")
    rows = list(
        parquet.fleet_rows(
            msgspec.structs.replace(record, answered=(given_up, lost)), {"a": finished_run}
        )
    )
    assert [(row["model"], row["run_id"], row["problem"], row.get("arm")) for row in rows] == [
        ("demo", "a", "its node was lost", None),
        ("lost", None, "its node was lost", None),
    ]


def test_the_file_has_the_rows_and_the_types(record: FleetRecord, finished_run: Answer) -> None:
    reader = pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra `fleet`")
    table = reader.read_table(io.BytesIO(parquet.encode_fleet(record, {"a": finished_run})))
    assert table.column_names == list(COLUMNS)
    rows = list(parquet.fleet_rows(record, {"a": finished_run}))
    assert table.to_pylist() == [{name: row.get(name) for name in COLUMNS} for row in rows]
