"""The matrix of a fleet: a cell for each model and kind of device."""

from __future__ import annotations

import built_measurements
import msgspec
from recorded_fleet import LOST, answered, record
from report_runs import advice_of, with_advice, with_results

from advisor.domain.answer import Answer, AnswerSummary, encode
from advisor.domain.recommendation import RunningCost
from advisor.domain.serving import AskedRate
from advisor.report.fleets import fleet_matrix
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


def test_a_single_price_names_no_cheapest_kind(finished_run: Answer) -> None:
    made = fleet_matrix.compose(
        record(answered("H200", "a"), answered("L40S", "b")),
        {"a": priced(finished_run, 0.5), "b": finished_run},
    )
    assert made.cheapest == {}


def test_a_cell_has_the_recommendation_of_its_run(finished_run: Answer) -> None:
    (cell,) = fleet_matrix.compose(record(answered("H200", "lost", "a")), {"a": finished_run}).cells
    assert cell.answer == AnswerSummary.of(finished_run)
    assert cell.answer.arm == advice_of(finished_run).arm
    assert (cell.run_id, cell.attempts) == ("a", 2)
    assert cell.throughput is not None


def test_figures_of_an_abandoned_race_are_not_an_answer(
    finished_run: Answer,
) -> None:
    given_up = record(answered("H200", "lost", "a", reason=LOST))
    made = fleet_matrix.compose(given_up, {"a": priced(finished_run, 0.5)})
    (cell,) = made.cells
    assert cell.answer == AnswerSummary()
    assert (cell.throughput, cell.cost, cell.run_id) == (None, None, "a")
    assert "answered at attempt" not in fleet_matrix.render(made)


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


def test_a_cell_without_an_answer_has_its_reason() -> None:
    made = fleet_matrix.compose(record(answered("H200", reason=LOST)), {})
    assert made.cells[0].answer.arm is None
    assert LOST in fleet_matrix.render(made)
    assert msgspec.json.decode(encode(made))["cells"][0]["reason"] == LOST


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
