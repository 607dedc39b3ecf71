"""The steps after the races in one run: repetitions, sustained calls, batch sizes not built."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import builders
import built_answers
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from sessions import expect_failure

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.decide.rounds import arms_by_speed, plan_of
from advisor.domain.answer import Answer
from advisor.domain.run_events import LoggedEvent, RepetitionStarted, WorkerEnded, WorkerSpawned
from advisor.domain.run_state import RunState
from advisor.execute import repetitions
from advisor.execute.repetitions import leaders_of
from probes.wire.events import BlockTimed, Sustained
from probes.wire.outcome import Outcome
from probes.wire.shape import Shape

pytestmark = pytest.mark.slow


class Measured(NamedTuple):
    """A run with every step: its events, its state and its answer."""

    events: list[LoggedEvent]
    state: RunState
    answer: Answer


@pytest.fixture(scope="module")
def measured(module_context: Context) -> Measured:
    """A run with the standard budget, which includes every step."""
    answers = Answers(
        batch_sizes="2", budget="standard", workflows="narrow", max_build_seconds=10.0
    )
    run = sessions.execute_run(module_context, answers)
    return Measured(run.events(), run.state(), decide(run))


def test_the_leaders_and_the_baseline_are_repeated_in_fresh_processes(measured: Measured) -> None:
    events = measured.events
    repeated = [
        event.run_event for event in events if isinstance(event.run_event, RepetitionStarted)
    ]
    assert [repetition.repeat for repetition in repeated] == [1, 2]
    for repetition in repeated:
        assert repetition.arms[0] == BASELINE
        assert len(repetition.arms) >= 2
        assert DUPLICATE not in repetition.arms
        spawned = [
            event.run_event.arm
            for event in events
            if isinstance(event.run_event, WorkerSpawned)
            and event.run_event.repeat == repetition.repeat
        ]
        assert spawned == list(repetition.arms)
    assert measured.answer.results.repeats == 2


def test_every_repeated_arm_makes_a_visit_in_each_round(measured: Measured) -> None:
    for arm in measured.state.repeats[1]:
        (process,) = [process for process in measured.state.processes[arm] if process.repeat == 1]
        assert {visit.round for visit in process.visits} == set(
            range(1, repetitions.REPEAT_ROUNDS + 1)
        )
        assert process.outcome == Outcome()


def test_the_order_of_the_arms_rotates_from_round_to_round(measured: Measured) -> None:
    events = measured.events
    first_arms: dict[int, str] = {}
    for report, block in sessions.reports_of(events, BlockTimed):
        if measured.state.processes[report.arm][report.process].repeat == 1:
            first_arms.setdefault(block.round, report.arm)
    assert len(first_arms) == repetitions.REPEAT_ROUNDS
    assert len(set(first_arms.values())) > 1


def test_a_cell_counts_the_processes_behind_its_speedup(measured: Measured) -> None:
    repeated = set(measured.state.repeats[1])
    for measurement in measured.answer.results.measurements:
        (cell,) = measurement.cells
        is_repeated = measurement.arm in repeated
        assert cell.processes == (3 if is_repeated else 1)
        assert (cell.process_variation is not None) is is_repeated
        assert (measurement.build_seconds.warm is not None) is is_repeated


def test_the_two_fastest_arms_are_sustained_in_the_order_abba(measured: Measured) -> None:
    events = measured.events
    order = [report.arm for report, _ in sessions.reports_of(events, Sustained)]
    one, two = order[0], order[1]
    assert order == [one, two, two, one]
    check = measured.answer.results.sustained
    assert check is not None
    assert set(check.arms) == {one, two}
    assert check.sustained_ratio == pytest.approx(check.burst_ratio, rel=0.5)
    assert check.joules_per_call == {one: None, two: None}


def test_the_result_at_batch_sizes_not_built_is_a_measured_fact(measured: Measured) -> None:
    expected = {
        "served": "served",
        "late": "recompiles",
        "eager": "recompiles",
        "refused": "refused",
    }
    found = {
        measurement.option: measurement.new_shapes
        for measurement in measured.answer.results.measurements
        if measurement.workflow == "narrow"
    }
    assert {option: found[option] for option in expected} == expected
    left_out = {arm.arm: arm.status for arm in measured.answer.unmeasured}
    assert left_out["narrow/wrong"] == "incorrect"
    ratings = {arm.arm: arm.ratings["input_flexibility"] for arm in measured.answer.scores}
    for option, value in expected.items():
        rating = ratings[f"narrow/{option}"]
        assert (rating.value, rating.evidence) == (value, "measured")
    assert [ratings[f"narrow/{option}"].tier for option in ("served", "late", "refused")] == [
        3,
        2,
        1,
    ]


def test_an_arm_as_slow_as_eager_at_other_sizes_counts_as_a_fallback(measured: Measured) -> None:
    by_option = {
        measurement.option: measurement
        for measurement in measured.answer.results.measurements
        if measurement.workflow == "narrow"
    }
    slow = by_option["slow"]
    assert slow.new_shapes == "recompiles"
    assert {result.outcome for result in slow.new_shape_results} == {"eager"}


def test_a_crash_at_other_sizes_keeps_the_earlier_measurements(measured: Measured) -> None:
    events = measured.events
    ended = [event.run_event for event in events if isinstance(event.run_event, WorkerEnded)]
    crash = next(end.outcome for end in ended if end.arm == "narrow/breaks" and end.outcome.failure)
    failure = expect_failure(crash, "crashed")
    assert failure.phase == "new-shapes"
    assert "narrow/breaks" in {
        measurement.arm for measurement in measured.answer.results.measurements
    }
    last_outcomes = {end.arm: end.outcome for end in ended}
    assert last_outcomes[BASELINE] == Outcome()


def test_the_leaders_of_a_quick_run_try_one_new_batch_size(
    fake_context: Callable[[], Context],
) -> None:
    answers = Answers(batch_sizes="2", budget="quick", workflows="narrow/late,narrow/slow,quick")
    run = sessions.execute_run(fake_context(), answers)
    answer = decide(run)
    assert answer.recommendation is not None
    tried = {
        measurement.arm: [result.shape for result in measurement.new_shape_results]
        for measurement in answer.results.measurements
        if measurement.new_shape_results
    }
    leaders = {arm.id for arm in leaders_of(answer, plan_of(run.state()))}
    assert answer.recommendation.arm in tried
    assert leaders <= set(tried)
    assert set(map(tuple, tried.values())) == {(Shape(3),)}
    assert built_answers.advised(answer).scored.ratings["input_flexibility"].evidence == "measured"


def test_first_builds_start_with_cold_caches(measured: Measured) -> None:
    cold = [
        measurement.build_seconds.proven_cold
        for measurement in measured.answer.results.measurements
    ]
    assert cold == [True] * len(cold) != []


def test_arms_by_speed_needs_a_race_of_the_batch_size() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4))})
    assert arms_by_speed({}, state, Shape(1)) == []
    assert arms_by_speed({Shape(1): builders.race_result(1)}, state, Shape(1)) == [BASELINE]


def test_a_repetition_that_has_not_started_is_not_complete() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4))})
    assert not repetitions.is_repetition_complete(state, 1, builders.question())
