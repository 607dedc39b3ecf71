"""Tests of summarising worker events: rounds, pairs, validity, speed-ups and noise floors."""

from __future__ import annotations

import math

import builders
import pytest
from builders import BASELINE, DUPLICATE, replace
from built_measurements import RACES, WRONG, only_measurement, repeated_run, run_with, summarise
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import OPENED

from advisor.decide.rounds import arms_by_speed, log_median_seconds, visits_by_round
from advisor.domain.plan import REFERENCE
from advisor.domain.results import StoppedBuild
from advisor.domain.run_state import ProcessState, RunState
from probes.events import Built, MemoryRead, Visited, Workload
from probes.outcome import Failure, Outcome, Phase
from probes.shape import Shape


def test_a_visit_counts_with_the_log_median_of_its_calls() -> None:
    visit = replace(*builders.visits([0.5]), seconds=(9.0, 0.5, 0.4))
    assert log_median_seconds(visit) == pytest.approx(math.log(0.5))


def test_a_repeated_round_counts_with_its_second_visit() -> None:
    before, after = (
        builders.process(*builders.visits([1.0, 7.0])),
        builders.process(*builders.visits([2.0], first_round=2)),
    )
    rounds = visits_by_round(builders.run_state({BASELINE: [before, after]}), Shape(1))
    assert [rounds[number][BASELINE].seconds[0] for number in (1, 2)] == [1.0, 2.0]


def test_a_speedup_is_the_seconds_of_the_baseline_over_those_of_the_arm() -> None:
    measurement = only_measurement(summarise(run_with(0.1, 0.1, 0.1, 0.1), RACES))
    assert measurement.speedup.value == pytest.approx(4)
    low, high = measurement.speedup.low, measurement.speedup.high
    assert builders.known(low) < 4 < builders.known(high), (
        "equal processes differ, even if the rounds within them do not"
    )
    assert measurement.cells[0].speedup.value == pytest.approx(4)


@given(st.lists(st.floats(0.01, 100), min_size=4, max_size=4))
def test_drift_over_rounds_does_not_change_the_speedup(drift: list[float]) -> None:
    seconds = [0.1, 0.11, 0.1, 0.12]
    slowed = run_with(
        *(each * factor for each, factor in zip(seconds, drift, strict=True)),
        against=[0.4 * factor for factor in drift],
    )
    steady, drifting = (
        only_measurement(summarise(state, RACES)).speedup for state in (run_with(*seconds), slowed)
    )
    assert (drifting.value, drifting.low, drifting.high) == pytest.approx(
        (steady.value, steady.low, steady.high)
    )


def test_what_the_build_of_a_shape_keeps_is_that_of_the_race() -> None:
    built = Built(shape=Shape(1), build_seconds=2.0, first_call_seconds=1.0, kept_bytes=7)
    measured = only_measurement(summarise(run_with(0.1, 0.1, built={Shape(1): built}), RACES))
    assert [cell.kept_bytes for cell in measured.cells] == [7]


def test_the_memory_of_a_resumed_run_is_that_of_the_process_that_built() -> None:
    state = run_with(0.1, 0.1)
    (process,) = state.processes["compiled"]
    cold, warm = (MemoryRead(peak_rss_bytes=peak, device_reserved_bytes=None) for peak in (4, 2))
    both = tuple(replace(process, memory=each, warm_memory=each) for each in (cold, warm))
    resumed = replace(state, processes={**state.processes, "compiled": both})
    assert only_measurement(summarise(resumed, RACES)).memory_bytes.peak == cold.peak_rss_bytes


def test_only_rounds_with_both_arms_are_compared() -> None:
    state = run_with(0.1, 0.1, against=[0.4, 0.4, 8.0])
    assert only_measurement(summarise(state, RACES)).speedup.value == pytest.approx(4)


TWO_SIZES = {Shape(4): builders.race_result(4), Shape(1): builders.race_result(1)}


def at_sizes(**seconds: dict[int, float]) -> RunState:
    """Return a run in which each arm takes these seconds, by batch size."""
    made = {
        arm.replace("_", "-"): [
            visit for size, each in by_size.items() for visit in builders.visits([each] * 3, size)
        ]
        for arm, by_size in seconds.items()
    }
    return builders.run_state({arm: builders.process(*visits) for arm, visits in made.items()})


def test_the_overall_speedup_is_the_geometric_mean_over_batch_sizes() -> None:
    state = at_sizes(pytorch_eager={1: 0.4, 4: 0.9}, compiled={1: 0.4, 4: 0.1})
    measurement = only_measurement(summarise(state, TWO_SIZES))
    assert measurement.speedup.value == pytest.approx(3)
    assert {
        cell.shape.batch_size: cell.speedup.value for cell in measurement.cells
    } == pytest.approx({1: 1, 4: 9})


def test_one_round_gives_null_bounds() -> None:
    measurement = only_measurement(summarise(run_with(0.1), RACES))
    assert measurement.speedup.value == pytest.approx(4)
    assert (measurement.speedup.low, measurement.speedup.high) == (None, None)
    assert (measurement.cells[0].seconds.low, measurement.cells[0].seconds.high) == (None, None)


def test_typical_seconds_are_those_of_the_baseline_over_the_speedup() -> None:
    cell = only_measurement(summarise(run_with(0.6, 0.1, 0.5, 0.2, 0.4, 0.3), RACES)).cells[0]
    seconds, speedup = cell.seconds, cell.speedup
    # The baseline of these runs takes 0.4 s in every visit, so its time has no error.
    assert seconds.median == pytest.approx(0.4 / speedup.value)
    assert seconds.low == pytest.approx(0.4 / builders.known(speedup.high))
    assert seconds.high == pytest.approx(0.4 / builders.known(speedup.low))
    assert seconds.samples == 18


@pytest.mark.parametrize(
    "end",
    [WRONG, Outcome(Failure("crashed", phase="measure", signal="SIGSEGV", reason="it crashed"))],
)
def test_an_arm_that_failed_has_no_measurement(end: Outcome) -> None:
    results = summarise(run_with(0.1, 0.1, outcome=end), RACES)
    assert [entry.arm for entry in results.measurements] == [BASELINE]


@pytest.mark.parametrize(
    "failure",
    [
        Failure("timed-out", phase="build", reason="r", fix="allow more"),
        Failure("skipped", phase="build", reason="r", fix="allow more", skip_cause="build-limit"),
    ],
)
@pytest.mark.parametrize(
    ("phase", "started"), [("start", False), ("import", False), ("build", True)]
)
def test_only_a_build_that_had_begun_was_started(
    phase: Phase, failure: Failure, *, started: bool
) -> None:
    process = ProcessState(phase=phase, outcome=Outcome(failure))
    state = builders.run_state({BASELINE: builders.process(), "compiled": process})
    (build,) = summarise(state, RACES).stopped_builds
    assert build == StoppedBuild(arm="compiled", started=started, fix="allow more")


def test_an_arm_that_the_user_skipped_is_not_left_out_for_time() -> None:
    outcome = Outcome(Failure("skipped", phase="build", reason="r", skip_cause="user"))
    process = ProcessState(phase="build", outcome=outcome)
    state = builders.run_state({BASELINE: builders.process(), "compiled": process})
    assert summarise(state, RACES).stopped_builds == ()


def test_an_arm_without_all_batch_sizes_has_no_measurement() -> None:
    results = summarise(at_sizes(pytorch_eager={1: 0.4, 4: 0.4}, compiled={1: 0.1}), TWO_SIZES)
    assert [entry.arm for entry in results.measurements] == [BASELINE]


def test_a_run_without_a_race_has_no_measurements() -> None:
    results = summarise(
        builders.run_state({BASELINE: builders.process(), "compiled": builders.process()}), {}
    )
    assert (results.measurements, results.races, results.noise_floor) == ((), (), None)


def with_duplicate(by_size: dict[int, list[float]]) -> RunState:
    """Return a run of the baseline, which takes 1 s, and its duplicate, by batch size."""
    visits: dict[str, list[Visited]] = {BASELINE: [], DUPLICATE: []}
    for size, seconds in by_size.items():
        visits[BASELINE] += builders.visits([1.0] * len(seconds), size)
        visits[DUPLICATE] += builders.visits(seconds, size)
    return builders.run_state({arm: builders.process(*made) for arm, made in visits.items()})


def test_the_noise_floor_is_the_largest_bound_of_the_duplicate() -> None:
    results = summarise(with_duplicate({1: [*map(math.exp, (0.01, -0.01, 0.02, 0.02))]}), RACES)
    # Mean 0.01, standard deviation sqrt(2) / 100, and 3.182446 for three degrees of freedom.
    assert results.noise_floor == pytest.approx(
        math.expm1(0.01 + 3.182446 * math.sqrt(2) / 100 / 2), rel=1e-5
    )
    assert results.races[0].noise_floor == results.noise_floor
    assert [entry.arm for entry in results.measurements] == [BASELINE]


def test_the_noise_floor_has_the_largest_mean_and_the_spread_of_all_processes() -> None:
    logs = {BASELINE: [[0.0, 0.0]] * 2, DUPLICATE: [[0.01, -0.01], [0.03, 0.05]]}
    state = repeated_run(
        {arm: [[*map(math.exp, each)] for each in rounds] for arm, rounds in logs.items()}
    )
    # The mean of the repetition, and the error of four differences of 0.01 from their means.
    assert summarise(state, RACES).noise_floor == pytest.approx(
        math.expm1(0.04 + 3.182446 * 0.02 / math.sqrt(3) / 2), rel=1e-5
    )


def test_the_noise_floor_of_a_run_is_the_largest_of_its_races() -> None:
    results = summarise(with_duplicate({1: [1.0] * 4, 4: [1.0, 1.1] * 2}), TWO_SIZES)
    assert [race.shape.batch_size for race in results.races] == [1, 4]
    assert results.races[0].noise_floor == 0
    assert results.noise_floor == results.races[1].noise_floor
    assert builders.known(results.noise_floor) > 0.1


def test_the_noise_floor_needs_two_rounds_of_the_duplicate() -> None:
    assert summarise(with_duplicate({1: [1.0]}), RACES).noise_floor is None
    assert summarise(run_with(0.1, 0.1), RACES).noise_floor is None


def test_throughput_is_in_samples_or_tokens() -> None:
    samples = summarise(run_with(0.1, 0.1), RACES)
    tokens = summarise(run_with(0.1, 0.1, opened=OPENED), RACES)
    throughputs = [only_measurement(results).cells[0].throughput for results in (samples, tokens)]
    assert [each.value for each in throughputs] == pytest.approx([10, 320])
    assert [each.unit for each in throughputs] == ["samples/s", "tokens/s"]


@pytest.mark.parametrize(("flops", "tflops"), [(2_000_000_000_000, 20.0), (None, None)])
def test_flops_come_from_the_reference_or_are_null(flops: int | None, tflops: float | None) -> None:
    state = run_with(0.1, 0.1)
    reference = builders.process(
        workloads={Shape(1): Workload(shape=Shape(1), flops=flops)}, ready=False
    )
    state = builders.run_state({**state.processes, REFERENCE: reference}, plan=state.plan)
    assert only_measurement(summarise(state, RACES)).cells[0].tflops == (
        tflops and pytest.approx(tflops)
    )


def test_build_seconds_include_all_batch_sizes_and_first_calls() -> None:
    built = {
        size: Built(shape=Shape(size), build_seconds=2.0, first_call_seconds=0.5) for size in (1, 4)
    }
    build = only_measurement(summarise(run_with(0.1, 0.1, built=built), RACES)).build_seconds
    assert (build.cold, build.warm) == (5.0, None)


def test_a_second_process_gives_the_warm_build_seconds() -> None:
    cold, warm = (
        {1: Built(shape=Shape(1), build_seconds=seconds, first_call_seconds=0.0)}
        for seconds in (30.0, 2.0)
    )
    processes = [
        builders.process(*builders.visits([0.1]), built=cold),
        builders.process(*builders.visits([0.1], 1, 2), built=warm),
    ]
    state = builders.run_state(
        {BASELINE: builders.process(*builders.visits([0.4, 0.4])), "compiled": processes}
    )
    build = only_measurement(summarise(state, RACES)).build_seconds
    assert (build.cold, build.warm) == (30.0, 2.0)


def test_arms_by_speed_needs_a_race_of_the_batch_size() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4))})
    assert arms_by_speed({}, state, Shape(1)) == []
    assert arms_by_speed({Shape(1): builders.race_result(1)}, state, Shape(1)) == [BASELINE]
