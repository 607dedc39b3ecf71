"""The matrix of a fleet: what each model should use on each kind of device, and where it is cheapest."""

from __future__ import annotations

import pathlib

import msgspec
import pytest
import recorded_runs

from advisor.domain.decision import RunningCost
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
from advisor.report import document, fleet_matrix
from advisor.report.document import RunDocument
from advisor.store import Store

ORDER = Order(
    fleet_id="f",
    created="2026-11-21T12:00:00+00:00",
    models=("demo",),
    pools=(Pool(kind="H200"), Pool(kind="L40S")),
)


@pytest.fixture
def composed(home: pathlib.Path) -> RunDocument:
    decision = decide(recorded_runs.make_run(Store(home), finished=True))
    return document.compose(decision)


def priced(composed: RunDocument, value: float) -> RunDocument:
    assert composed.recommendation is not None
    arm = composed.recommendation.arm
    costs = tuple(
        RunningCost(arm=arm, batch_size=size, value=value * size, unit="million tokens")
        for size in (2, 1)
    )
    return msgspec.structs.replace(
        composed, recommendation=msgspec.structs.replace(composed.recommendation, costs=costs)
    )


def answered(kind: str, *runs: str, reason: str | None = None) -> Answered:
    attempts = tuple(Attempt(run_id=run, node="n1", device="0") for run in runs)
    return Answered(
        assignment=Assignment(number=1, model="demo", kind=kind), attempts=attempts, reason=reason
    )


def record(*all_answered: Answered) -> FleetRecord:
    return FleetRecord(schema=FLEET_SCHEMA, order=ORDER, answered=all_answered)


def test_the_cheapest_kind_is_named_where_two_have_a_price(composed: RunDocument) -> None:
    documents = {"a": priced(composed, 0.5), "b": priced(composed, 0.4)}
    made = fleet_matrix.compose(record(answered("H200", "a"), answered("L40S", "b")), documents)
    assert made.cheapest == {"demo": "L40S"}
    assert [cell.cost.value for cell in made.cells if cell.cost] == [0.5, 0.4]
    assert "Cheapest for demo: L40S" in fleet_matrix.render(made)


def test_one_price_makes_nothing_cheapest(composed: RunDocument) -> None:
    made = fleet_matrix.compose(
        record(answered("H200", "a"), answered("L40S", "b")),
        {"a": priced(composed, 0.5), "b": composed},
    )
    assert made.cheapest == {}


def test_a_cell_says_what_its_run_says(composed: RunDocument) -> None:
    (cell,) = fleet_matrix.compose(record(answered("H200", "lost", "a")), {"a": composed}).cells
    advice = composed.recommendation
    assert advice is not None
    assert (cell.arm, cell.verdict, cell.trust, cell.run_id, cell.attempts) == (
        advice.arm,
        advice.verdict,
        advice.trust,
        "a",
        2,
    )
    assert cell.throughput is not None
    assert "answered at attempt 2" in fleet_matrix.render(
        fleet_matrix.compose(record(answered("H200", "lost", "a")), {"a": composed})
    )


def test_what_a_race_had_measured_before_it_was_given_up_is_no_answer(
    composed: RunDocument,
) -> None:
    given_up = record(answered("H200", "lost", "a", reason="the fleet has lost its last H200"))
    made = fleet_matrix.compose(given_up, {"a": priced(composed, 0.5)})
    (cell,) = made.cells
    assert (cell.arm, cell.verdict, cell.speedup, cell.throughput, cell.cost, cell.run_id) == (
        None,
        None,
        None,
        None,
        None,
        "a",
    )
    assert "answered at attempt" not in fleet_matrix.render(made)


def test_a_race_whose_run_is_gone_or_was_stopped_is_due_again(composed: RunDocument) -> None:
    kept = record(answered("H200", "gone"), answered("L40S", "a"))
    documents = {"a": msgspec.structs.replace(composed, finished=False)}
    assert [cell.arm for cell in fleet_matrix.compose(kept, documents).cells] == [None, None]
    assert [one.reason for one in fleet_matrix.reopen(kept, documents).answered] == [
        fleet_matrix.GONE,
        fleet_matrix.STOPPED,
    ]
    assert (
        f"demo on H200: {fleet_matrix.GONE}; next: p3-advisor fleet f --resume"
        in fleet_matrix.render(fleet_matrix.compose(kept, documents))
    )
    whole = record(answered("H200", "a"))
    assert fleet_matrix.reopen(whole, {"a": composed}).answered == whole.answered


def test_a_cell_without_an_answer_says_why() -> None:
    made = fleet_matrix.compose(
        record(answered("H200", reason="the fleet has lost its last H200")), {}
    )
    assert made.cells[0].arm is None
    assert "the fleet has lost its last H200" in fleet_matrix.render(made)
    assert (
        msgspec.json.decode(fleet_matrix.encode(made))["cells"][0]["reason"]
        == "the fleet has lost its last H200"
    )
