"""Tests of repetitions, sustained calls, cold builds, shifts and new shapes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE
from built_measurements import RACES, WRONG, only_measurement, run_with, summarise

from advisor.domain.run_events import EnergyMeasured
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.events import NewShapeResult, PhaseStarted, Sustained
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape


def repeated(*levels: float, spread: float = 0.01) -> RunState:
    """Return a run in which each process of `compiled` has its own log ratio to the baseline.

    The first level is that of the race, the others are those of its repetitions.
    """
    compiled, baseline = [], []
    for number, level in enumerate(levels):
        rounds = [0.1 * math.exp(level + spread * (-1) ** place) for place in range(4)]
        compiled.append(builders.process(*builders.visits(rounds), repeat=number))
        baseline.append(builders.process(*builders.visits([0.1] * 4), repeat=number))
    repeats = dict.fromkeys(range(1, len(levels)), (BASELINE, "compiled"))
    return builders.run_state({BASELINE: baseline, "compiled": compiled}, repeats=repeats)


def test_three_processes_widen_the_interval_by_their_own_differences() -> None:
    measurement = only_measurement(summarise(repeated(0.0, 0.1, -0.1), RACES))
    (cell,) = measurement.cells
    assert cell.processes == 3
    assert cell.speedup.value == pytest.approx(1.0)
    # Of the mean of three processes that differ by 0.1, the common variance being less than theirs.
    assert cell.speedup.process_error is not None
    assert 0.1 / math.sqrt(3) < cell.speedup.process_error < 4.302653 / 1.96 * 0.1 / math.sqrt(3)
    assert measurement.speedup.process_error == pytest.approx(cell.speedup.process_error)


def test_two_processes_count_alike_and_widen_the_interval_by_their_difference() -> None:
    results = summarise(repeated(0.0, 0.1), RACES)
    (cell,) = only_measurement(results).cells
    assert (cell.processes, results.repeats) == (2, 1)
    assert cell.speedup.value == pytest.approx(math.exp(-0.05))
    (alike,) = only_measurement(summarise(repeated(0.0, 0.0), RACES)).cells
    assert builders.known(cell.speedup.process_error) > 2 * builders.known(
        alike.speedup.process_error
    )


def test_a_repetition_is_paired_with_its_own_baseline() -> None:
    drifting = repeated(0.05, 0.05, 0.05)
    slowed = [
        builders.process(
            *builders.visits([visit.seconds[0] * factor for visit in process.visits]),
            repeat=process.repeat,
        )
        for process, factor in zip(drifting.processes["compiled"], (1.0, 3.0, 9.0), strict=True)
    ]
    baseline = [
        builders.process(*builders.visits([0.1 * factor] * 4), repeat=number)
        for number, factor in enumerate((1.0, 3.0, 9.0))
    ]
    state = builders.run_state({BASELINE: baseline, "compiled": slowed}, repeats=drifting.repeats)
    assert only_measurement(summarise(state, RACES)).speedup.value == pytest.approx(math.exp(-0.05))


def test_a_failed_repetition_keeps_the_result_of_the_race() -> None:
    crashed = builders.process(
        *builders.visits([9.0]),
        repeat=1,
        outcome=Outcome(Failure("crashed", phase="measure", signal="SIGSEGV", reason="it crashed")),
    )
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4] * 4)),
            "compiled": [builders.process(*builders.visits([0.1] * 4)), crashed],
        },
        repeats={1: (BASELINE, "compiled")},
    )
    measurement = only_measurement(summarise(state, RACES))
    assert measurement.cells[0].processes == 1
    assert measurement.speedup.value == pytest.approx(4)


# Sustained calls


def sustained(
    seconds: float, calls: int = 100, joules: float | None = None, **changes: object
) -> ProcessState:
    """Return a process with 0.1 s in the race and these seconds in two sustained periods."""
    without_pause = (Sustained(shape=Shape(1), calls=calls, seconds=seconds * calls),) * 2
    energy = (EnergyMeasured(arm="x", process=0, shape=Shape(1), joules=joules),) * 2
    return builders.process(
        *builders.visits([0.1] * 4), sustained=without_pause, energy=energy, **changes
    )


@pytest.mark.parametrize(
    ("seconds", "agrees"), [(0.1, True), (0.1015, True), (0.103, False), (0.09, False)]
)
def test_sustained_calls_agree_with_the_race_within_the_margin(
    seconds: float, agrees: bool
) -> None:
    check = summarise(
        builders.run_state({BASELINE: sustained(0.1), "compiled": sustained(seconds)}), RACES
    ).sustained
    assert check is not None
    assert check.agrees is agrees
    assert (check.arms, check.shape.batch_size) == ((BASELINE, "compiled"), 1)
    assert (check.burst_ratio, check.sustained_ratio) == pytest.approx((1.0, seconds / 0.1))


def test_joules_per_call_are_null_without_an_energy_counter() -> None:
    state = builders.run_state(
        {BASELINE: sustained(0.1, calls=50, joules=200.0), "compiled": sustained(0.1)}
    )
    check = builders.known(summarise(state, RACES).sustained)
    assert check.joules_per_call == {BASELINE: pytest.approx(4.0), "compiled": None}


def test_a_sustained_check_needs_two_valid_arms() -> None:
    assert (
        summarise(
            builders.run_state({BASELINE: sustained(0.1), "compiled": builders.process()}), RACES
        ).sustained
        is None
    )
    wrong = builders.run_state(
        {BASELINE: sustained(0.1), "compiled": sustained(0.1, outcome=WRONG)}
    )
    assert summarise(wrong, RACES).sustained is None


# Cold builds, streamed calls, shifts, new shapes


def test_throughput_uses_streamed_seconds_where_there_are_some() -> None:
    streaming = [
        dataclasses.replace(visit, streamed_seconds=0.05) for visit in builders.visits([0.1] * 4)
    ]
    state = run_with(*[0.1] * 4, visits=tuple(streaming))
    (cell,) = only_measurement(summarise(state, RACES)).cells
    assert cell.throughput.value == pytest.approx(20)
    assert cell.seconds.median == pytest.approx(0.1)


def results_with(
    outcome: str = "served",
    steady: float | None = 0.01,
    batch_size: int = 3,
    first: float = 0.1,
) -> dict[Shape, NewShapeResult]:
    made = NewShapeResult(
        shape=Shape(batch_size),
        outcome=outcome,  # type: ignore[arg-type]
        first_call_seconds=first,
        steady_seconds=steady,
        reason=None,
    )
    return {made.shape: made}


def with_new_shapes(seconds: float, eager: float | None, compiled: float) -> RunState:
    """Return a run whose baseline takes these seconds, and its arms these for a new shape."""
    return builders.run_state(
        {
            BASELINE: builders.process(
                *builders.visits([seconds] * 4), new_shape_results=results_with(steady=eager)
            ),
            "compiled": builders.process(
                *builders.visits([0.1] * 4), new_shape_results=results_with(steady=compiled)
            ),
        }
    )


@pytest.mark.parametrize(
    ("seconds", "eager_seconds", "new_shapes"),
    [
        (0.01, 0.02, "served"),
        (0.0199, 0.02, "recompiles"),
        (0.03, 0.02, "recompiles"),
        (0.03, None, "served"),
    ],
)
def test_a_new_shape_without_the_speedup_is_a_silent_fallback(
    seconds: float, eager_seconds: float | None, new_shapes: str
) -> None:
    state = with_new_shapes(0.4, eager_seconds, seconds)
    assert only_measurement(summarise(state, RACES)).new_shapes == new_shapes


def test_a_stack_that_cannot_run_eager_code_serves_a_new_shape_without_the_speedup() -> None:
    state = with_new_shapes(0.4, 0.02, 0.03)
    arms = tuple(msgspec.structs.replace(arm, eager_fallback=False) for arm in state.plan.arms)
    plan = msgspec.structs.replace(state.plan, arms=arms)
    measured = only_measurement(summarise(msgspec.structs.replace(state, plan=plan), RACES))
    assert measured.new_shapes == "served"
    (result,) = measured.new_shape_results
    assert result.outcome == "served"
    assert builders.known(result.reason).startswith("1.50 times")


def test_an_arm_without_a_clear_speedup_has_no_silent_fallback() -> None:
    state = with_new_shapes(0.11, 0.02, 0.02)
    assert only_measurement(summarise(state, RACES)).new_shapes == "served"


@pytest.mark.parametrize(
    ("outcomes", "rating"),
    [
        (["served"], "served"),
        (["served", "stalled"], "recompiles"),
        (["eager", "served"], "recompiles"),
        (["stalled", "refused"], "refused"),
        (["wrong"], "refused"),
    ],
)
def test_new_shapes_have_the_rating_of_the_worst_result(outcomes: list[str], rating: str) -> None:
    tried = {
        size: results_with(outcome, batch_size=size)[Shape(size)]
        for size, outcome in enumerate(outcomes, start=2)
    }
    assert (
        only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=tried), RACES)).new_shapes
        == rating
    )


@pytest.mark.parametrize(
    ("outcome", "rating"),
    [
        (Outcome(), "served"),
        (
            Outcome(Failure("timed-out", phase="new-shapes", reason="the build took too long")),
            "served",
        ),
        (
            Outcome(
                Failure(
                    "crashed", phase="new-shapes", signal="SIGSEGV", reason="a segmentation fault"
                )
            ),
            "refused",
        ),
        (None, "served"),
    ],
)
def test_a_shape_at_which_the_worker_ended_counts(outcome: Any, rating: str) -> None:
    started = PhaseStarted(phase="new-shapes", shape=Shape(1, 17))
    state = run_with(
        *[0.1] * 4,
        new_shape_results=results_with(),
        new_shape_started=started,
        outcome=outcome,
    )
    measured = only_measurement(summarise(state, RACES))
    assert measured.new_shapes == rating
    ended = [each.outcome for each in measured.new_shape_results if each.shape.input_tokens]
    was_killed = outcome is not None and rating == "served"
    assert ended == (["skipped"] if was_killed else ["refused"] if outcome else [])
    assert measured.new_shapes_complete is not was_killed


@pytest.mark.parametrize(("seconds", "rating"), [(0.9, "served"), (1.1, "recompiles")])
def test_a_first_call_as_slow_as_that_of_eager_code_builds_nothing(
    seconds: float, rating: str
) -> None:
    """Eager code recompiles nothing, but may load kernels for a new shape."""
    tried = [results_with("stalled", first=first) for first in (0.75, seconds)]
    state = builders.run_state(
        {
            arm: builders.process(*builders.visits([0.1] * 4), new_shape_results=results)
            for arm, results in zip((BASELINE, "compiled"), tried, strict=True)
        }
    )
    found = {each.arm: each.new_shapes for each in summarise(state, RACES).measurements}
    assert found == {BASELINE: "served", "compiled": rating}


def test_a_shape_that_was_skipped_has_no_rating() -> None:
    tried = {**results_with("served"), **results_with("skipped", batch_size=1)}
    measured = only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=tried), RACES))
    assert measured.new_shapes == "served"
    assert not measured.new_shapes_complete
    alone = results_with("skipped", batch_size=1)
    nothing = only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=alone), RACES))
    assert nothing.new_shapes is None


def test_stalled_calls_are_counted_in_timed_and_warmup_calls() -> None:
    visits = builders.visits([0.01] * 4)
    stalled = (
        dataclasses.replace(visits[0], warmup_seconds=(0.9,)),
        dataclasses.replace(visits[1], seconds=(0.01, 0.01, 0.7)),
        *visits[2:],
    )
    results = summarise(run_with(*[0.01] * 4, against=0.01, visits=stalled), RACES)
    assert only_measurement(results).visits.stalled_calls == 2
    assert results.visits.stalled_calls == 2
