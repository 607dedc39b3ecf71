"""The matrix of a fleet, with a cell for each model and kind of device."""

from __future__ import annotations

import pathlib

import built_measurements
import msgspec
import pytest
from recorded_fleet import LOST, cell, fleet_of
from report_runs import advice_of, with_advice, with_results

from advisor.domain.answer import Answer, AnswerSummary, Fleet, FleetCell, Problem
from advisor.domain.recommendation import RunningCost
from advisor.domain.serving import AskedRate
from advisor.errors import UnknownRunError
from advisor.report import fleet_matrix
from advisor.store.store import Store
from probes.wire.shape import Shape

FLEET = fleet_of(cell("H200", "a"), cell("L40S", "b"))


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


@pytest.fixture
def store(home: pathlib.Path) -> Store:
    return Store(home)


def answered_with(
    fleet: Fleet, answers: dict[str, Answer], store: Store, monkeypatch: pytest.MonkeyPatch
) -> Fleet:
    """Return the fleet with these answers by run."""

    def find(name: str) -> str:
        if name not in answers:
            raise UnknownRunError(name, "")
        return name

    monkeypatch.setattr(store, "find", find)
    monkeypatch.setattr(fleet_matrix, "decide", answers.__getitem__)
    return fleet_matrix.with_answers(fleet, store)


def lines_only_in(one: Fleet, other: Fleet) -> list[str]:
    """Return the rendered lines of one matrix that the other one does not have."""
    others = fleet_matrix.render(other).splitlines()
    return [line for line in fleet_matrix.render(one).splitlines() if line not in others]


def test_the_cheapest_of_two_priced_kinds_is_named(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"a": priced(finished_run, 0.5), "b": priced(finished_run, 0.4)}
    made = answered_with(FLEET, answers, store, monkeypatch)
    assert made.cheapest == {"demo": "L40S"}
    assert [each.cost.value for each in made.cells if each.cost] == [0.5, 0.4]
    named = lines_only_in(made, msgspec.structs.replace(made, cheapest={}))
    assert "L40S" in "".join(named)
    assert "H200" not in "".join(named)
    single = {**answers, "b": finished_run}
    assert answered_with(FLEET, single, store, monkeypatch).cheapest == {}


def test_a_cell_has_the_recommendation_of_its_run(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    retried = fleet_of(cell("H200", "a", attempts=2))
    made = answered_with(retried, {"a": finished_run}, store, monkeypatch)
    (found,) = made.cells
    assert found.answer == AnswerSummary.of(finished_run)
    assert found.answer.arm == advice_of(finished_run).arm
    assert found.throughput is not None
    assert "attempt 2" in fleet_matrix.render(made)


def test_figures_of_an_abandoned_race_are_not_an_answer(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = fleet_of(cell("H200", "a", attempts=2, reason=LOST))
    made = answered_with(given_up, {"a": priced(finished_run, 0.5)}, store, monkeypatch)
    (found,) = made.cells
    assert (found.answer, found.throughput, found.cost) == (AnswerSummary(), None, None)
    assert (found.run_id, found.reason) == ("a", LOST)
    assert "attempt" not in fleet_matrix.render(made)
    assert LOST in fleet_matrix.render(made)


def test_a_cell_with_a_missing_or_unfinished_run_has_a_reason_and_a_next_step(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = msgspec.structs.replace(finished_run, finished=False)
    fleet = fleet_of(cell("H200", "gone"), cell("L40S", "a"), FleetCell(model="demo", kind="cpu"))
    made = answered_with(fleet, {"a": unfinished}, store, monkeypatch)
    assert [(each.answer.arm, each.reason) for each in made.cells] == [
        (None, fleet_matrix.RUN_MISSING),
        (None, fleet_matrix.RUN_UNFINISHED),
        (None, fleet_matrix.RUN_MISSING),
    ]
    assert {each.next_step for each in made.cells} == {
        f"p3-advisor fleet {fleet.fleet_id} --resume"
    }
    assert f"next: p3-advisor fleet {fleet.fleet_id} --resume" in fleet_matrix.render(made)


def test_a_run_without_a_recommendation_says_why_and_is_not_repeated(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(name="Fails", what="every arm fails", next_step="wait", exit_code=1)
    answer = msgspec.structs.replace(finished_run, recommendation=None, problem=problem)
    made = answered_with(fleet_of(cell("H200", "a")), {"a": answer}, store, monkeypatch)
    assert made.cells[0].reason is None
    assert problem.what in fleet_matrix.render(made)


def test_the_cheapest_kind_has_the_lowest_price_of_all_servers_for_the_asked_rate(
    finished_run: Answer, store: Store, monkeypatch: pytest.MonkeyPatch
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

    answers = {"a": serving_run(2, 3.0), "b": serving_run(5, 1.5)}
    made = answered_with(FLEET, answers, store, monkeypatch)
    assert made.cheapest == {"demo": "H200"}
    assert [each.asked.servers for each in made.cells if each.asked] == [2, 5]
    assert "2 servers, 6 per hour" in fleet_matrix.render(made)
