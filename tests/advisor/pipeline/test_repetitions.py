"""What follows the race, in one real run of pretend stacks: fresh processes, calls without a pause, shapes that were not built."""

from __future__ import annotations

import os

import builders
import pytest
from builders import BASELINE, DUPLICATE

from advisor.context import Context
from advisor.domain.decision import Recommendation
from advisor.domain.outcome import Completed, Crashed
from advisor.domain.run_events import Ended, LoggedEvent, Repeated, Spawned, WorkerReported
from advisor.domain.worker_events import BlockTimed, Sustained
from advisor.pipeline import repetitions
from advisor.pipeline.decision import Decision, decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Store

UNSEEN = ("served", "late", "slow", "eager", "refused", "wrong", "breaks")


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[list[LoggedEvent], Decision]:
    """A run with the standard budget, which has everything."""
    probes, rubric = request.getfixturevalue("fake_probes"), request.getfixturevalue("fake_rubric")
    world = Context(
        environment=dict(os.environ),
        store=Store(tmp_path_factory.mktemp("home")),
        probes=probes,
        rubric=rubric,
    )
    run = prepare(
        Answers(batch_sizes="2", budget="standard", workflows="narrow", max_build_seconds=10.0),
        world,
    )
    for _ in execute(run, world):
        pass
    return run.events(), decide(run)


Run = tuple[list[LoggedEvent], Decision]


def test_the_leaders_and_the_baseline_are_repeated_in_fresh_processes(outcome: Run) -> None:
    events, decision = outcome
    repeated = [event.run_event for event in events if isinstance(event.run_event, Repeated)]
    assert [one.repeat for one in repeated] == [1, 2]
    for one in repeated:
        assert one.arms[0] == BASELINE
        assert len(one.arms) >= 2
        assert DUPLICATE not in one.arms
        spawned = [
            event.run_event.arm
            for event in events
            if isinstance(event.run_event, Spawned) and event.run_event.repeat == one.repeat
        ]
        assert spawned == list(one.arms)
    assert decision.results.repeats == 2
    assert not any("no arm was repeated" in reason for reason in advice_of(decision).trust_reasons)


def advice_of(decision: Decision) -> Recommendation:
    assert decision.recommendation is not None
    return decision.recommendation


def test_a_repetition_has_its_rounds_in_turn_and_begins_warm(outcome: Run) -> None:
    events, decision = outcome
    wanted = decision.state.repeats[1]
    for arm in wanted:
        (process,) = [process for process in decision.state.processes[arm] if process.repeat == 1]
        assert {visit.round for visit in process.visits} == set(
            range(1, repetitions.REPEAT_ROUNDS + 1)
        )
        assert isinstance(process.outcome, Completed)
    first = {
        event.run_event.said.round: event.run_event.arm
        for event in reversed(events)
        if isinstance(event.run_event, WorkerReported)
        and isinstance(event.run_event.said, BlockTimed)
        and is_repeat(decision, event.run_event)
    }
    assert len(set(first.values())) > 1, (
        "the order turns, so that nobody always follows the same neighbour"
    )


def is_repeat(decision: Decision, heard: WorkerReported) -> bool:
    return decision.state.processes[heard.arm][heard.process].repeat == 1


def test_a_speedup_that_rests_on_three_processes_says_so(outcome: Run) -> None:
    _, decision = outcome
    repeated = set(decision.state.repeats[1])
    for measurement in decision.results.measurements:
        (cell,) = measurement.cells
        assert cell.processes == (3 if measurement.arm in repeated else 1)
        assert (cell.process_variation is not None) is (measurement.arm in repeated)
        assert (measurement.build_seconds.warm is not None) is (measurement.arm in repeated)


def test_the_best_two_are_called_without_a_pause_in_the_order_one_two_two_one(outcome: Run) -> None:
    events, decision = outcome
    order = [
        event.run_event.arm
        for event in events
        if isinstance(event.run_event, WorkerReported)
        and isinstance(event.run_event.said, Sustained)
    ]
    one, two = order[0], order[1]
    assert order == [one, two, two, one]
    check = decision.results.sustained
    assert check is not None
    assert set(check.arms) == {one, two}
    assert check.sustained_ratio == pytest.approx(check.burst_ratio, rel=0.5)
    assert check.joules_per_call == {one: None, two: None}


def test_what_came_of_shapes_that_were_not_built_is_the_measured_fact(outcome: Run) -> None:
    _, decision = outcome
    expected = {
        "served": "served",
        "late": "recompiles",
        "eager": "recompiles",
        "refused": "refused",
        "wrong": "refused",
    }
    found = {
        measurement.option: measurement.new_shapes
        for measurement in decision.results.measurements
        if measurement.workflow == "narrow"
    }
    assert {name: found[name] for name in expected} == expected
    ratings = {arm.arm: arm.ratings["input_flexibility"] for arm in decision.scored}
    for name, value in expected.items():
        rating = ratings[f"narrow/{name}"]
        assert (rating.value, rating.evidence) == (value, "measured")
    assert [ratings[f"narrow/{name}"].tier for name in ("served", "late", "refused")] == [3, 2, 1]


def test_code_that_is_as_slow_as_eager_for_new_shapes_has_silently_fallen_back(
    outcome: Run,
) -> None:
    _, decision = outcome
    by_option = {
        measurement.option: measurement
        for measurement in decision.results.measurements
        if measurement.workflow == "narrow"
    }
    slow = by_option["slow"]
    assert slow.new_shapes == "recompiles"
    assert {one.outcome for one in slow.flexed} == {"eager"}
    assert all("times as long as the baseline there" in (one.reason or "") for one in slow.flexed)


def test_a_program_that_breaks_on_new_shapes_keeps_what_was_measured_before(outcome: Run) -> None:
    events, decision = outcome
    ends = {
        event.run_event.arm: event.run_event.outcome
        for event in events
        if isinstance(event.run_event, Ended)
    }
    crash = next(
        event.run_event.outcome
        for event in events
        if isinstance(event.run_event, Ended)
        and event.run_event.arm == "narrow/breaks"
        and not isinstance(event.run_event.outcome, Completed)
    )
    assert isinstance(crash, Crashed)
    assert crash.phase == "flex"
    assert "narrow/breaks" in {measurement.arm for measurement in decision.results.measurements}
    assert isinstance(ends[BASELINE], Completed)


def test_builds_begin_with_empty_caches_and_that_is_proven(outcome: Run) -> None:
    _, decision = outcome
    assert all(
        measurement.build_seconds.proven_cold for measurement in decision.results.measurements
    )


def test_whoever_ended_early_is_neither_sustained_nor_repeated() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4))})
    assert repetitions.leaders({}, state, 1) == []
    assert repetitions.leaders({1: builders.race_result(1)}, state, 1) == [BASELINE]
    assert not repetitions.is_complete(state, 1, builders.question())
