"""The matrix of a fleet, with a cell for each model and kind of device, and its Parquet rows."""

from __future__ import annotations

import io

import built_measurements
import msgspec
import pytest
from recorded_fleet import LOST, answered, record
from report_runs import advice_of, with_advice, with_results

from advisor.domain.answer import Answer, AnswerSummary, FleetRecord, encode
from advisor.domain.recommendation import RunningCost
from advisor.domain.serving import AskedRate
from advisor.report import figures, fleet_matrix
from probes.wire.shape import Shape


def priced(finished_run: Answer, value: float) -> Answer:
    costs = tuple(
        RunningCost(
            arm=advice_of(finished_run).arm,
            shape=Shape(size),
            value=value * size,
            unit="million tokens",
        )
        for size in (2, 1)
    )
    return with_advice(finished_run, costs=costs)


def lines_only_in(one: fleet_matrix.FleetDocument, other: fleet_matrix.FleetDocument) -> list[str]:
    """Return the rendered lines of one matrix that the other one does not have."""
    others = fleet_matrix.render(other).splitlines()
    return [line for line in fleet_matrix.render(one).splitlines() if line not in others]


def test_the_cheapest_of_two_priced_kinds_is_named(finished_run: Answer) -> None:
    documents = {"a": priced(finished_run, 0.5), "b": priced(finished_run, 0.4)}
    made = fleet_matrix.compose(record(answered("H200", "a"), answered("L40S", "b")), documents)
    assert made.cheapest == {"demo": "L40S"}
    assert [cell.cost.value for cell in made.cells if cell.cost] == [0.5, 0.4]
    named = lines_only_in(made, msgspec.structs.replace(made, cheapest={}))
    assert "L40S" in "".join(named)
    assert "H200" not in "".join(named)
    single = {**documents, "b": finished_run}
    made = fleet_matrix.compose(record(answered("H200", "a"), answered("L40S", "b")), single)
    assert made.cheapest == {}


def test_a_cell_has_the_recommendation_of_its_run(finished_run: Answer) -> None:
    (cell,) = fleet_matrix.compose(record(answered("H200", "lost", "a")), {"a": finished_run}).cells
    assert cell.answer == AnswerSummary.of(finished_run)
    assert cell.answer.arm == advice_of(finished_run).arm
    assert (cell.run_id, cell.attempts) == ("a", 2)
    assert cell.throughput is not None


def test_figures_of_an_abandoned_race_are_not_an_answer(finished_run: Answer) -> None:
    given_up = record(answered("H200", "lost", "a", reason=LOST))
    documents = {"a": priced(finished_run, 0.5)}
    made = fleet_matrix.compose(given_up, documents)
    (cell,) = made.cells
    assert cell.answer == AnswerSummary()
    assert (cell.throughput, cell.cost, cell.run_id) == (None, None, "a")
    assert "answered at attempt" not in fleet_matrix.render(made)
    assert LOST in fleet_matrix.render(made)
    assert msgspec.json.decode(encode(made))["cells"][0]["reason"] == LOST
    (row,) = fleet_matrix.fleet_rows(given_up, documents)
    assert (row["run_id"], row["problem"], row.get("arm")) == ("a", LOST, None)


def test_a_result_with_a_missing_or_unfinished_run_has_a_reason_and_a_next_step(
    finished_run: Answer,
) -> None:
    kept = record(answered("H200", "gone"), answered("L40S", "a"))
    documents = {"a": msgspec.structs.replace(finished_run, finished=False)}
    assert [cell.answer.arm for cell in fleet_matrix.compose(kept, documents).cells] == [None, None]
    assert [one.reason for one in fleet_matrix.flag_unusable_results(kept, documents).answered] == [
        fleet_matrix.RUN_MISSING,
        fleet_matrix.RUN_UNFINISHED,
    ]
    assert (
        f"demo on H200: {fleet_matrix.RUN_MISSING}; next: p3-advisor fleet f --resume"
        in fleet_matrix.render(fleet_matrix.compose(kept, documents))
    )
    whole = record(answered("H200", "a"))
    assert fleet_matrix.flag_unusable_results(whole, {"a": finished_run}).answered == whole.answered


def test_the_cheapest_kind_has_the_lowest_price_of_all_servers_for_the_asked_rate(
    finished_run: Answer,
) -> None:
    def serving_run(servers: int, price: float) -> Answer:
        asked = AskedRate(
            rate=20.0,
            verdict="not-met",
            servers=servers,
            fewest_servers=servers,
            most_servers=servers,
            price_per_hour=servers * price,
        )
        arm = built_measurements.served_arm(advice_of(finished_run).arm, asked=asked)
        serving = built_measurements.serving(arm)
        return with_results(priced(finished_run, price), serving=serving)

    documents = {"a": serving_run(2, 3.0), "b": serving_run(5, 1.5)}
    made = fleet_matrix.compose(record(answered("H200", "a"), answered("L40S", "b")), documents)
    assert made.cheapest == {"demo": "H200"}
    assert [cell.asked.servers for cell in made.cells if cell.asked] == [2, 5]
    assert "2 servers, 6 per hour" in fleet_matrix.render(made)


#: Figures of the ranking that a data frame of a fleet needs.
FIGURES = (
    *("score", "cold_build_seconds", "peak_memory_bytes"),
    *("seconds_median", "speedup", "throughput"),
)
COLUMNS = (*fleet_matrix.FLEET_COLUMNS, *figures.COLUMNS)


@pytest.fixture
def fleet() -> FleetRecord:
    lost = answered("H200", model="lost", number=2, reason="its node was lost")
    return record(answered("H200", "a"), lost)


def test_every_workflow_and_every_result_without_a_run_has_a_row(
    fleet: FleetRecord, finished_run: Answer
) -> None:
    rows = list(fleet_matrix.fleet_rows(fleet, {"a": finished_run}))
    assert {row["arm"] for row in rows if "arm" in row} == set(finished_run.titles)
    assert set().union(*rows) <= set(COLUMNS)
    (chosen, *_) = [row for row in rows if row.get("recommended")]
    assert finished_run.recommendation is not None
    assert (chosen["arm"], chosen["trust"]) == (
        finished_run.recommendation.arm,
        finished_run.recommendation.trust,
    )
    measured = [row for row in rows if row.get("batch_size")]
    assert len(measured) == sum(len(arm.cells) for arm in finished_run.ranked)
    assert all(row.get(name) is not None for row in measured for name in FIGURES)
    (crashed,) = [row for row in rows if row.get("arm") == "broken"]
    assert (crashed["status"], crashed.get("seconds_median")) == ("crashed", None)
    assert [(row["model"], row["problem"]) for row in rows if "arm" not in row] == [
        ("lost", "its node was lost")
    ]


def test_the_file_has_the_rows_and_the_types(fleet: FleetRecord, finished_run: Answer) -> None:
    reader = pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra `fleet`")
    table = reader.read_table(io.BytesIO(fleet_matrix.to_parquet(fleet, {"a": finished_run})))
    assert table.column_names == list(COLUMNS)
    rows = list(fleet_matrix.fleet_rows(fleet, {"a": finished_run}))
    assert table.to_pylist() == [{name: row.get(name) for name in COLUMNS} for row in rows]
