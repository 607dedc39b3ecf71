"""Repetitions, sustained calls, cold builds, drift of the machine, shifts and new shapes."""

from __future__ import annotations

import math
import random
from typing import Any

import builders
import built_measurements
import pytest
from builders import BASELINE, DUPLICATE, replace
from built_measurements import RACES, WRONG, only_measurement, repeated_run, run_with, summarise

from advisor.decide import drift
from advisor.decide.drift import correct_drift, fit_times_to_speedups, typical_seconds
from advisor.decide.race import results_by_shape
from advisor.domain.measurement import CallSeconds, Interval, Measurement
from advisor.domain.run_events import EnergyMeasured
from advisor.domain.run_state import ProcessState, RunState
from probes.events import NewShapeHandling, NewShapeResult, PhaseStarted, Sustained
from probes.facts import SizeLimit
from probes.outcome import Failure, Outcome
from probes.shape import Shape


def repeated(*levels: float, slowdowns: tuple[float, ...] = (1.0, 1.0, 1.0)) -> RunState:
    """Return a run in which each process of `compiled` has its own log ratio to the baseline.

    The first level is that of the race, the others are those of its repetitions.
    """
    baseline = [[0.1 * slowdown] * 4 for slowdown in slowdowns[: len(levels)]]
    compiled = [
        [each * math.exp(level + 0.01 * (-1) ** place) for place, each in enumerate(rounds)]
        for level, rounds in zip(levels, baseline, strict=True)
    ]
    return repeated_run({BASELINE: baseline, "compiled": compiled})


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
    state = repeated(0.05, 0.05, 0.05, slowdowns=(1.0, 3.0, 9.0))
    assert only_measurement(summarise(state, RACES)).speedup.value == pytest.approx(math.exp(-0.05))


def test_a_failed_repetition_keeps_the_result_of_the_race() -> None:
    crash = Failure("crashed", phase="measure", signal="SIGSEGV", reason="it crashed")
    crashed = builders.process(*builders.visits([9.0]), repeat=1, outcome=Outcome(crash))
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
    state = builders.run_state({BASELINE: sustained(0.1), "compiled": sustained(seconds)})
    check = builders.known(summarise(state, RACES).sustained)
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
    for second in (builders.process(), sustained(0.1, outcome=WRONG)):
        state = builders.run_state({BASELINE: sustained(0.1), "compiled": second})
        assert summarise(state, RACES).sustained is None


# Cold builds, streamed calls, shifts, new shapes


def test_throughput_uses_streamed_seconds_where_there_are_some() -> None:
    streaming = [replace(visit, streamed_seconds=0.05) for visit in builders.visits([0.1] * 4)]
    state = run_with(*[0.1] * 4, visits=tuple(streaming))
    (cell,) = only_measurement(summarise(state, RACES)).cells
    assert cell.throughput.value == pytest.approx(20)
    assert cell.seconds.median == pytest.approx(0.1)


def results_with(
    handling: NewShapeHandling = "served",
    steady: float | None = 0.01,
    batch_size: int = 3,
    first: float = 0.1,
) -> dict[Shape, NewShapeResult]:
    made = NewShapeResult(
        shape=Shape(batch_size),
        handling=handling,
        first_call_seconds=first,
        steady_seconds=steady,
        reason=None,
    )
    return {made.shape: made}


def with_new_shapes(seconds: float, *tried: dict[Shape, NewShapeResult]) -> RunState:
    """Return a run whose baseline takes these seconds, and what it and the arm made of new shapes.

    The arm takes 0.1 s.
    """
    raced = zip((BASELINE, "compiled"), (seconds, 0.1), tried, strict=True)
    return builders.run_state(
        {
            arm: builders.process(*builders.visits([each] * 4), new_shape_results=results)
            for arm, each, results in raced
        }
    )


@pytest.mark.parametrize(
    ("raced", "seconds", "eager_seconds", "new_shapes"),
    [
        (0.4, 0.01, 0.02, "served"),
        (0.4, 0.0199, 0.02, "recompiles"),
        (0.4, 0.03, 0.02, "recompiles"),
        (0.4, 0.03, None, "served"),
        # Without a clear speed-up there is none to lose.
        (0.11, 0.02, 0.02, "served"),
    ],
)
def test_a_new_shape_without_the_speedup_is_a_silent_fallback(
    raced: float, seconds: float, eager_seconds: float | None, new_shapes: str
) -> None:
    tried = [results_with(steady=each) for each in (eager_seconds, seconds)]
    state = with_new_shapes(raced, *tried)
    assert only_measurement(summarise(state, RACES)).new_shape_behaviour == new_shapes


def test_a_stack_that_cannot_run_eager_code_serves_a_new_shape_without_the_speedup() -> None:
    state = with_new_shapes(0.4, results_with(steady=0.02), results_with(steady=0.03))
    arms = tuple(replace(each, eager_fallback=False) for each in state.plan.arms)
    plan = replace(state.plan, arms=arms)
    measured = only_measurement(summarise(replace(state, plan=plan), RACES))
    assert measured.new_shape_behaviour == "served"
    (result,) = measured.new_shape_results
    assert result.handling == "served"
    assert builders.known(result.reason).startswith("1.50 times")


@pytest.mark.parametrize(
    ("handlings", "rating"),
    [
        (["served"], "served"),
        (["served", "stalled"], "recompiles"),
        (["eager", "served"], "recompiles"),
        (["stalled", "refused"], "refused"),
        (["wrong"], "refused"),
    ],
)
def test_new_shapes_have_the_rating_of_the_worst_result(
    handlings: list[NewShapeHandling], rating: str
) -> None:
    tried = {
        size: results_with(handling, batch_size=size)[Shape(size)]
        for size, handling in enumerate(handlings, start=2)
    }
    measured = only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=tried), RACES))
    assert measured.new_shape_behaviour == rating


def test_sizes_that_the_code_limits_count_as_refused() -> None:
    limits = (SizeLimit(0, 1, 2, 64),)
    engaged = replace(builders.process().engaged, size_limits=limits)
    state = run_with(0.1, 0.1, new_shape_results=results_with(), engaged=engaged)
    measured = only_measurement(summarise(state, RACES))
    assert (measured.new_shape_behaviour, measured.size_limits) == ("refused", limits)


TIMED_OUT = Failure("timed-out", phase="new-shapes", reason="the build took too long")
CRASHED = Failure("crashed", phase="new-shapes", signal="SIGSEGV", reason="a segmentation fault")


@pytest.mark.parametrize(
    ("outcome", "rating"),
    [
        (Outcome(), "served"),
        (Outcome(TIMED_OUT), "served"),
        (Outcome(CRASHED), "refused"),
        (None, "served"),
    ],
)
def test_a_shape_at_which_the_worker_ended_counts(outcome: Any, rating: str) -> None:
    started = PhaseStarted(phase="new-shapes", shape=Shape(1, 17))
    state = run_with(
        *[0.1] * 4, new_shape_results=results_with(), new_shape_started=started, outcome=outcome
    )
    measured = only_measurement(summarise(state, RACES))
    assert measured.new_shape_behaviour == rating
    ended = [each.handling for each in measured.new_shape_results if each.shape.input_tokens]
    was_killed = outcome is not None and rating == "served"
    assert ended == (["skipped"] if was_killed else ["refused"] if outcome else [])
    assert measured.new_shapes_complete is not was_killed


@pytest.mark.parametrize(("seconds", "rating"), [(0.9, "served"), (1.1, "recompiles")])
def test_a_first_call_as_slow_as_that_of_eager_code_builds_nothing(
    seconds: float, rating: str
) -> None:
    """Eager code recompiles nothing, but may load kernels for a new shape."""
    tried = [results_with("stalled", first=first) for first in (0.75, seconds)]
    results = summarise(with_new_shapes(0.1, *tried), RACES)
    found = {each.arm: each.new_shape_behaviour for each in results.measurements}
    assert found == {BASELINE: "served", "compiled": rating}


def test_a_shape_that_was_skipped_has_no_rating() -> None:
    tried = {**results_with("served"), **results_with("skipped", batch_size=1)}
    measured = only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=tried), RACES))
    assert measured.new_shape_behaviour == "served"
    assert not measured.new_shapes_complete
    alone = results_with("skipped", batch_size=1)
    nothing = only_measurement(summarise(run_with(0.1, 0.1, new_shape_results=alone), RACES))
    assert nothing.new_shape_behaviour is None


def test_stalled_calls_are_counted_in_timed_and_warmup_calls() -> None:
    visits = builders.visits([0.01] * 4)
    stalled = (
        replace(visits[0], warmup_seconds=(0.9,)),
        replace(visits[1], seconds=(0.01, 0.01, 0.7)),
        *visits[2:],
    )
    results = summarise(run_with(*[0.01] * 4, against=0.01, visits=stalled), RACES)
    assert only_measurement(results).visits.stalled_calls == 2
    assert results.visits.stalled_calls == 2


def test_times_and_speedups_agree_where_the_machine_slowed_down_for_some_rounds() -> None:
    """Half of the rounds take twice as long, and a slow round has one fast visit of the arm."""
    baseline = [0.4, 0.4, 0.4, 0.8, 0.8, 0.8]
    results = summarise(run_with(*[0.1, 0.1, 0.2, 0.2, 0.2, 0.2], against=baseline), RACES)
    (eager,), (compiled,) = (each.cells for each in results.measurements)
    assert eager.seconds.median == pytest.approx(0.6)
    ratio = eager.seconds.median / compiled.seconds.median
    assert ratio == pytest.approx(compiled.speedup.value)
    assert compiled.throughput.value * compiled.seconds.median == pytest.approx(1)
    assert builders.known(compiled.percentiles).p50 == 0.2
    # The interval has the error of the baseline's time and that of the speed-up.
    assert builders.known(compiled.seconds.low) < eager.seconds.median / builders.known(
        compiled.speedup.high
    )


def test_first_tokens_are_corrected_and_rows_of_calls_are_not() -> None:
    (visit,) = builders.visits([0.2])
    timed = replace(visit, first_token_seconds=(0.1,), streamed_seconds=0.15)
    (corrected,) = correct_drift([timed], builders.visits([0.3, 0.4, 0.5]), speedup=4.0)
    assert typical_seconds([corrected]) == pytest.approx(0.1)
    assert corrected.first_token_seconds == pytest.approx((0.05,))
    assert corrected.streamed_seconds == 0.15


def timed(
    arm: str, median: float, bounds: tuple[float | None, float | None], speedup: Interval
) -> Measurement:
    calls = CallSeconds(median=median, low=bounds[0], high=bounds[1], samples=12)
    cell = built_measurements.cell(seconds=calls, speedup=speedup)
    return builders.measurement(arm, cells=(cell,))


ONE = Interval(value=1.0, low=1.0, high=1.0)


def test_the_error_of_a_time_is_that_of_the_baseline_and_of_the_speedup() -> None:
    baseline = timed(BASELINE, 0.4, (0.4 / 1.03, 0.4 * 1.06), ONE)
    compiled = timed("arm", 0.2, (None, None), Interval(value=2.0, low=2 / 1.08, high=2 * 1.04))
    assert fit_times_to_speedups(baseline, baseline) == baseline
    seconds = fit_times_to_speedups(compiled, baseline).cells[0].seconds
    shorter = math.hypot(math.log(1.03), math.log(1.04))
    longer = math.hypot(math.log(1.06), math.log(1.08))
    assert math.log(seconds.median / builders.known(seconds.low)) == pytest.approx(shorter)
    assert math.log(builders.known(seconds.high) / seconds.median) == pytest.approx(longer)


@pytest.mark.parametrize(
    ("bounds", "speedup"),
    [
        ((None, None), Interval(value=2.0, low=1.9, high=2.1)),
        ((0.39, 0.41), Interval(value=2.0, low=None, high=None)),
    ],
)
def test_a_time_has_no_bounds_where_the_baseline_or_the_speedup_has_none(
    bounds: tuple[float | None, float | None], speedup: Interval
) -> None:
    baseline = timed(BASELINE, 0.4, bounds, ONE)
    seconds = (
        fit_times_to_speedups(timed("arm", 0.2, (0.1, 0.3), speedup), baseline).cells[0].seconds
    )
    assert (seconds.low, seconds.high) == (None, None)


MARGIN = 0.02


def noise(rounds: int, spread: float, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(0, spread) for _ in range(rounds)]


@pytest.mark.parametrize("place", [3, 6, 10])
@pytest.mark.parametrize("size", [-0.22, 0.1, 0.05])
def test_a_step_is_found_at_any_place_with_its_size(place: int, size: float) -> None:
    series = [
        each + (size if number >= place else 0.0)
        for number, each in enumerate(noise(13, 0.004, seed=place))
    ]
    assert drift.find_shift(series, MARGIN) == pytest.approx(size, abs=0.01)


@pytest.mark.parametrize(
    ("series", "shift"),
    [
        ([0.01 * place + each for place, each in enumerate(noise(13, 0.003, seed=1))], 0.065),
        ([0.0] * 3 + [0.25] * 3, 0.25),
        ([0.0] * 8, 0.0),
        ([0.0] * 6 + [0.015] * 6, 0.0),
        ([each + 0.5 * (place == 6) for place, each in enumerate(noise(13, 0.004, 3))], 0.0),
        ([], 0.0),
        ([0.0, 0.0, 9.0, 9.0, 9.0], 0.0),
    ],
    ids=["trend", "without noise", "none", "within the margin", "outlier", "empty", "too short"],
)
def test_a_change_of_the_level_is_found_and_nothing_else(series: list[float], shift: float) -> None:
    assert drift.find_shift(series, MARGIN) == pytest.approx(shift, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("rounds", [6, 13, 40])
def test_noise_rarely_gives_a_false_alarm(spread: float, rounds: int) -> None:
    assert (
        sum(drift.find_shift(noise(rounds, spread, seed), MARGIN) != 0 for seed in range(100)) <= 1
    )


@pytest.mark.parametrize(
    ("seconds", "typical", "stalls"),
    [
        ([0.01, 0.3, 0.01], 0.01, 1),
        ([0.01, 0.2], 0.01, 0),
        ([1.0, 9.0, 11.0], 1.0, 1),
        ([], 1.0, 0),
    ],
)
def test_a_stalled_call_is_long_and_far_above_the_typical_time(
    seconds: list[float], typical: float, stalls: int
) -> None:
    assert drift.count_stalls(seconds, typical) == stalls


def test_a_change_of_speed_during_the_race_is_a_figure_of_its_cell() -> None:
    seconds = {BASELINE: [0.4] * 13, DUPLICATE: [0.4] * 13, "compiled": [0.2] * 6 + [0.25] * 7}
    state = builders.run_state(
        {arm: builders.process(*builders.visits(each)) for arm, each in seconds.items()},
        last_groups={1: tuple(seconds)},
    )
    results = summarise(state, results_by_shape(state, builders.question()))
    shifts = {entry.arm: [cell.shift for cell in entry.cells] for entry in results.measurements}
    assert shifts == {BASELINE: [0.0], "compiled": [pytest.approx(0.25)]}
