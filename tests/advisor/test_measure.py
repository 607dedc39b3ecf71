"""From what workers said to figures: which times count, what they are compared with, and what is left open rather than guessed."""

from __future__ import annotations

import math

import builders
import msgspec
import pytest
from builders import BASELINE, DUPLICATE
from hypothesis import given
from hypothesis import strategies as st

from advisor import measure
from advisor.domain.events import DeviceMemory, Energy
from advisor.domain.measurement import Measurement, RaceResult, Results
from advisor.domain.outcome import (
    Built,
    Caches,
    Completed,
    Crashed,
    Flexed,
    Incorrect,
    Loaded,
    MemoryRead,
    Outcome,
    Sustained,
    TimedOut,
    Visited,
)
from advisor.domain.plan import REFERENCE
from advisor.domain.state import ProcessState, RunState

WRONG = Incorrect(phase="done", reason="its last output was wrong")
RACES = {1: builders.race_result(1)}


def summarise(state: RunState, races: dict[int, RaceResult]) -> Results:
    return measure.summarise(state, races, dtype="float32", margin=0.02)


def only_measurement(results: Results) -> Measurement:
    (measurement,) = (entry for entry in results.measurements if entry.arm != BASELINE)
    return measurement


def raced(*seconds: float, against: float = 0.4, **changes: object) -> RunState:
    """Return a run in which `compiled` took these seconds, and the baseline the same time in each round."""
    baseline = builders.process(*builders.visits([against] * len(seconds)))
    return builders.run_state({BASELINE: baseline, "compiled": builders.process(*builders.visits(seconds), **changes)})


def test_a_visit_counts_for_the_logarithm_of_the_median_of_its_calls() -> None:
    visit = Visited(batch_size=1, round=1, seconds=(9.0, 0.5, 0.4), lead_calls=1, cpu_seconds=0.1)
    assert measure.block_value(visit) == pytest.approx(math.log(0.5))


def test_rounds_hold_the_visits_of_their_batch_size_only() -> None:
    state = builders.run_state({BASELINE: builders.process(*builders.visits([1.0], batch_size=1), *builders.visits([2.0], batch_size=4))})
    assert measure.rounds_of(state, 4) == {1: {BASELINE: builders.visits([2.0], batch_size=4)[0]}}
    assert measure.rounds_of(state, 16) == {}


def test_a_round_that_was_begun_again_counts_as_the_second_time() -> None:
    before, after = builders.process(*builders.visits([1.0, 7.0])), builders.process(*builders.visits([2.0], first_round=2))
    rounds = measure.rounds_of(builders.run_state({BASELINE: [before, after]}), 1)
    assert [rounds[number][BASELINE].seconds[0] for number in (1, 2)] == [1.0, 2.0]


def test_the_measured_process_is_the_last_one_that_was_ready() -> None:
    first, second, third = builders.process(), builders.process(phase="done"), builders.process(ready=False)
    state = builders.run_state({BASELINE: [first, second, third]})
    assert measure.measured_process(state, BASELINE) == second
    assert measure.measured_process(state, "unknown") is None


@pytest.mark.parametrize(
    ("ends", "valid"),
    [
        ([None], True),
        ([Completed()], True),
        ([None, Completed()], True),
        ([WRONG], False),
        ([WRONG, Completed()], False),
        ([Completed(), TimedOut(phase="measure", reason="it hung")], False),
    ],
)
def test_times_count_unless_a_failure_takes_them_back(ends: list[Outcome | None], valid: bool) -> None:  # noqa: FBT001 - a parameter
    state = builders.run_state({"compiled": [builders.process(outcome=end) for end in ends]})
    assert measure.is_valid(state, "compiled") is valid


def test_an_arm_that_never_was_ready_does_not_count() -> None:
    assert not measure.is_valid(builders.run_state({"compiled": ProcessState()}), "compiled")
    assert not measure.is_valid(builders.run_state({}), "compiled")


def test_a_speedup_is_the_seconds_of_the_baseline_over_those_of_the_arm() -> None:
    measurement = only_measurement(summarise(raced(0.1, 0.1, 0.1, 0.1), RACES))
    assert measurement.speedup.value == pytest.approx(4)
    assert (measurement.speedup.low, measurement.speedup.high) == pytest.approx((4, 4))
    assert measurement.cells[0].speedup.value == pytest.approx(4)


@given(st.lists(st.floats(0.01, 100), min_size=4, max_size=4))
def test_what_slows_a_whole_round_does_not_change_the_speedup(drift: list[float]) -> None:
    seconds = [0.1, 0.11, 0.1, 0.12]
    slowed = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4 * factor for factor in drift])),
            "compiled": builders.process(*builders.visits([each * factor for each, factor in zip(seconds, drift, strict=True)])),
        }
    )
    steady, drifting = (only_measurement(summarise(state, RACES)).speedup for state in (raced(*seconds), slowed))
    assert (drifting.value, drifting.low, drifting.high) == pytest.approx((steady.value, steady.low, steady.high))


def test_only_rounds_that_both_ran_are_compared() -> None:
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4, 0.4, 8.0])),
            "compiled": builders.process(*builders.visits([0.1, 0.1])),
        }
    )
    results = summarise(state, RACES)
    assert results.log_speedups["compiled"][1] == pytest.approx((math.log(4), math.log(4)))


def test_the_speedup_of_an_arm_is_the_geometric_mean_over_the_batch_sizes() -> None:
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4] * 3, 1), *builders.visits([0.9] * 3, 4)),
            "compiled": builders.process(*builders.visits([0.4] * 3, 1), *builders.visits([0.1] * 3, 4)),
        }
    )
    measurement = only_measurement(summarise(state, {4: builders.race_result(4), 1: builders.race_result(1)}))
    assert measurement.speedup.value == pytest.approx(3)
    assert {cell.batch_size: cell.speedup.value for cell in measurement.cells} == pytest.approx({1: 1, 4: 9})


def test_one_round_gives_a_value_without_bounds() -> None:
    measurement = only_measurement(summarise(raced(0.1), RACES))
    assert measurement.speedup.value == pytest.approx(4)
    assert (measurement.speedup.low, measurement.speedup.high) == (None, None)
    assert (measurement.cells[0].seconds.low, measurement.cells[0].seconds.high) == (None, None)


def test_typical_seconds_are_the_median_of_the_visits_with_the_order_statistics_that_hold_it() -> None:
    seconds = only_measurement(summarise(raced(0.6, 0.1, 0.5, 0.2, 0.4, 0.3), RACES)).cells[0].seconds
    assert seconds.median == pytest.approx(0.35)
    assert (seconds.low, seconds.high, seconds.samples) == (0.1, 0.6, 18)


@pytest.mark.parametrize("end", [WRONG, Crashed(phase="measure", signal="SIGSEGV", reason="it crashed")])
def test_an_arm_that_failed_later_has_no_measurement_and_no_differences(end: Outcome) -> None:
    results = summarise(raced(0.1, 0.1, outcome=end), RACES)
    assert [entry.arm for entry in results.measurements] == [BASELINE]
    assert "compiled" not in results.log_speedups


def test_an_arm_that_missed_a_batch_size_has_no_measurement() -> None:
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4] * 3, 1), *builders.visits([0.4] * 3, 4)),
            "compiled": builders.process(*builders.visits([0.1] * 3, 1)),
        }
    )
    results = summarise(state, {1: builders.race_result(1), 4: builders.race_result(4)})
    assert [entry.arm for entry in results.measurements] == [BASELINE]


def test_a_run_that_stopped_before_its_first_race_has_no_measurements() -> None:
    results = summarise(builders.run_state({BASELINE: builders.process(), "compiled": builders.process()}), {})
    assert (results.measurements, results.races, results.noise_floor) == ((), (), None)


def test_a_run_without_a_plan_is_refused() -> None:
    with pytest.raises(ValueError, match="plan"):
        summarise(RunState(), {})


def with_duplicate(*pairs: tuple[float, float], batch_size: int = 1) -> dict[str, tuple[Visited, ...]]:
    ours, theirs = zip(*pairs, strict=True)
    return {BASELINE: builders.visits(ours, batch_size), DUPLICATE: builders.visits(theirs, batch_size)}


def test_the_noise_floor_is_what_two_equal_arms_may_still_differ_by() -> None:
    made = with_duplicate((1.0, math.exp(0.01)), (1.0, math.exp(-0.01)), (1.0, math.exp(0.02)), (1.0, math.exp(0.02)))
    results = summarise(builders.run_state({arm: builders.process(*visits) for arm, visits in made.items()}), RACES)
    # Mean 0.01, standard deviation sqrt(2) / 100, and 3.182446 for three degrees of freedom.
    assert results.noise_floor == pytest.approx(math.expm1(0.01 + 3.182446 * math.sqrt(2) / 100 / 2), rel=1e-5)
    assert results.races[0].noise_floor == results.noise_floor
    assert [entry.arm for entry in results.measurements] == [BASELINE]


def test_the_noise_floor_of_a_run_is_the_largest_of_its_races() -> None:
    quiet, loud = with_duplicate(*[(1.0, 1.0)] * 4, batch_size=1), with_duplicate(*[(1.0, 1.0), (1.0, 1.1)] * 2, batch_size=4)
    state = builders.run_state({arm: builders.process(*quiet[arm], *loud[arm]) for arm in quiet})
    results = summarise(state, {4: builders.race_result(4), 1: builders.race_result(1)})
    assert [race.batch_size for race in results.races] == [1, 4]
    assert results.races[0].noise_floor == 0
    assert results.noise_floor == results.races[1].noise_floor
    assert results.noise_floor is not None
    assert results.noise_floor > 0.1


def test_without_two_rounds_of_a_duplicate_the_noise_floor_is_not_known() -> None:
    once = {arm: builders.process(*visits) for arm, visits in with_duplicate((1.0, 1.0)).items()}
    assert summarise(builders.run_state(once), RACES).noise_floor is None
    assert summarise(raced(0.1, 0.1), RACES).noise_floor is None


def test_throughput_counts_samples_or_the_tokens_in_them() -> None:
    samples = summarise(raced(0.1, 0.1), RACES)
    text = Loaded(seconds=1, parameters=None, parameter_bytes=None, weights="random", unit="tokens", units_per_sample=32)
    tokens = summarise(raced(0.1, 0.1, loaded=text), RACES)
    throughputs = [only_measurement(results).cells[0].throughput for results in (samples, tokens)]
    assert [each.value for each in throughputs] == pytest.approx([10, 320])
    assert [each.unit for each in throughputs] == ["samples/s", "tokens/s"]


def test_throughput_grows_with_the_batch_size() -> None:
    made = {arm: builders.process(*builders.visits([0.1, 0.1], batch_size=16)) for arm in (BASELINE, "compiled")}
    measurement = only_measurement(summarise(builders.run_state(made), {16: builders.race_result(16)}))
    assert measurement.cells[0].throughput.value == pytest.approx(160)


@pytest.mark.parametrize(("flops", "tflops"), [(2_000_000_000_000, 20.0), (None, None)])
def test_floating_point_rates_come_from_the_reference_or_are_left_open(flops: int | None, tflops: float | None) -> None:
    state = raced(0.1, 0.1)
    reference = builders.process(workload={1: flops}, ready=False)
    state = builders.run_state({**state.processes, REFERENCE: reference}, plan=state.plan)
    assert only_measurement(summarise(state, RACES)).cells[0].tflops == (tflops and pytest.approx(tflops))


def test_build_seconds_are_those_of_all_batch_sizes_with_their_first_calls() -> None:
    built = {size: Built(batch_size=size, build_seconds=2.0, first_call_seconds=0.5) for size in (1, 4)}
    build = only_measurement(summarise(raced(0.1, 0.1, built=built), RACES)).build_seconds
    assert (build.cold, build.warm) == (5.0, None)


def test_a_second_process_tells_how_long_a_warm_build_takes() -> None:
    cold, warm = ({1: Built(batch_size=1, build_seconds=seconds, first_call_seconds=0.0)} for seconds in (30.0, 2.0))
    processes = [builders.process(*builders.visits([0.1]), built=cold), builders.process(*builders.visits([0.1], 1, 2), built=warm)]
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4, 0.4])), "compiled": processes})
    build = only_measurement(summarise(state, RACES)).build_seconds
    assert (build.cold, build.warm) == (30.0, 2.0)


DEVICE = DeviceMemory(arm="compiled", process=0, before_bytes=5, peak_bytes=700, resident_bytes=600)
HOST = MemoryRead(peak_rss_bytes=300, device_allocated_bytes=200, device_reserved_bytes=250)
UNSEEN = MemoryRead(peak_rss_bytes=None, device_allocated_bytes=200, device_reserved_bytes=250)


@pytest.mark.parametrize(
    ("device", "host", "peak", "words"),
    [(DEVICE, HOST, 700, "NVML"), (None, HOST, 300, "resident set"), (None, UNSEEN, None, "nobody"), (None, None, None, "nobody")],
)
def test_memory_is_what_the_device_says_before_what_the_host_says(
    device: DeviceMemory | None, host: MemoryRead | None, peak: int | None, words: str
) -> None:
    memory = only_measurement(summarise(raced(0.1, 0.1, device_memory=device, memory=host), RACES)).memory_bytes
    assert memory.peak == peak
    assert words in memory.source


def test_what_a_worker_did_not_say_is_left_empty() -> None:
    measurement = only_measurement(summarise(raced(0.1, 0.1, engaged=None, imported=None, checked={}), RACES))
    assert (measurement.engaged_share, measurement.versions, measurement.correctness) == (0.0, {}, ())


def test_checks_are_listed_by_batch_size() -> None:
    checks = {size: builders.checked(size) for size in (16, 1, 4)}
    measurement = only_measurement(summarise(raced(0.1, 0.1, checked=checks), RACES))
    assert [checked.batch_size for checked in measurement.correctness] == [1, 4, 16]


# Repetitions in fresh processes


def repeated(*levels: float, spread: float = 0.01) -> RunState:
    """Return a run in which each process of `compiled` has a level of its own against the baseline: the race's first, then repetitions."""
    ours, theirs = [], []
    for number, level in enumerate(levels):
        rounds = [0.1 * math.exp(level + spread * (-1) ** place) for place in range(4)]
        ours.append(builders.process(*builders.visits(rounds), repeat=number))
        theirs.append(builders.process(*builders.visits([0.1] * 4), repeat=number))
    repeats = dict.fromkeys(range(1, len(levels)), (BASELINE, "compiled"))
    return builders.run_state({BASELINE: theirs, "compiled": ours}, repeats=repeats)


def test_with_three_processes_the_interval_includes_how_much_they_differ() -> None:
    measurement = only_measurement(summarise(repeated(0.0, 0.1, -0.1), RACES))
    (cell,) = measurement.cells
    assert cell.processes == 3
    assert cell.speedup.value == pytest.approx(1.0)
    assert cell.speedup.low is not None
    # 4.302653 for two degrees of freedom.
    assert math.log(cell.speedup.low) == pytest.approx(-4.302653 * 0.1 / math.sqrt(3), rel=1e-4)
    assert cell.process_variation == pytest.approx(math.expm1(0.1), rel=0.05)
    assert measurement.speedup == cell.speedup


def test_with_two_processes_the_interval_is_that_of_the_race_and_nothing_is_said_about_their_difference() -> None:
    results = summarise(repeated(0.0, 0.1), RACES)
    (cell,) = only_measurement(results).cells
    assert (cell.processes, cell.process_variation, results.repeats) == (2, None, 1)
    assert cell.speedup.value == pytest.approx(1.0)


def test_rounds_of_a_repetition_are_paired_with_that_repetitions_baseline() -> None:
    drifting = repeated(0.05, 0.05, 0.05)
    slowed = [
        builders.process(*builders.visits([visit.seconds[0] * factor for visit in process.visits]), repeat=process.repeat)
        for process, factor in zip(drifting.processes["compiled"], (1.0, 3.0, 9.0), strict=True)
    ]
    baseline = [builders.process(*builders.visits([0.1 * factor] * 4), repeat=number) for number, factor in enumerate((1.0, 3.0, 9.0))]
    state = builders.run_state({BASELINE: baseline, "compiled": slowed}, repeats=drifting.repeats)
    assert only_measurement(summarise(state, RACES)).speedup.value == pytest.approx(math.exp(-0.05))


def test_a_repetition_that_failed_leaves_the_race_as_it_was() -> None:
    crashed = builders.process(*builders.visits([9.0]), repeat=1, outcome=Crashed(phase="measure", signal="SIGSEGV", reason="it crashed"))
    state = builders.run_state(
        {BASELINE: builders.process(*builders.visits([0.4] * 4)), "compiled": [builders.process(*builders.visits([0.1] * 4)), crashed]},
        repeats={1: (BASELINE, "compiled")},
    )
    measurement = only_measurement(summarise(state, RACES))
    assert measurement.cells[0].processes == 1
    assert measurement.speedup.value == pytest.approx(4)


def test_a_repetition_whose_outputs_were_wrong_takes_everything_back() -> None:
    state = repeated(0.0, 0.0)
    wrong = [state.processes["compiled"][0], msgspec.structs.replace(state.processes["compiled"][1], outcome=WRONG)]
    results = summarise(builders.run_state({**state.processes, "compiled": wrong}, repeats=state.repeats), RACES)
    assert [entry.arm for entry in results.measurements] == [BASELINE]


# Calls without a pause


def sustained(seconds: float, calls: int = 100, joules: float | None = None, **changes: object) -> ProcessState:
    """Return a process that raced at 0.1 s and took these seconds a call, twice, when it was called without a pause."""
    without_pause = (Sustained(batch_size=1, calls=calls, seconds=seconds * calls),) * 2
    energy = (Energy(arm="x", process=0, batch_size=1, joules=joules),) * 2
    return builders.process(*builders.visits([0.1] * 4), sustained=without_pause, energy=energy, **changes)


@pytest.mark.parametrize(("seconds", "agrees"), [(0.1, True), (0.1015, True), (0.103, False), (0.09, False)])
def test_calls_without_a_pause_agree_with_calls_in_turn_within_the_margin(seconds: float, agrees: bool) -> None:  # noqa: FBT001 - a parameter
    check = summarise(builders.run_state({BASELINE: sustained(0.1), "compiled": sustained(seconds)}), RACES).sustained
    assert check is not None
    assert check.agrees is agrees
    assert (check.arms, check.batch_size) == ((BASELINE, "compiled"), 1)
    assert (check.burst_ratio, check.sustained_ratio) == pytest.approx((1.0, seconds / 0.1))


def test_energy_is_told_for_a_call_where_it_is_counted() -> None:
    state = builders.run_state({BASELINE: sustained(0.1, calls=50, joules=200.0), "compiled": sustained(0.1)})
    check = summarise(state, RACES).sustained
    assert check is not None
    assert check.joules_per_call == {BASELINE: pytest.approx(4.0), "compiled": None}


def test_without_a_pair_there_is_no_sustained_check() -> None:
    assert summarise(builders.run_state({BASELINE: sustained(0.1), "compiled": builders.process()}), RACES).sustained is None
    wrong = builders.run_state({BASELINE: sustained(0.1), "compiled": sustained(0.1, outcome=WRONG)})
    assert summarise(wrong, RACES).sustained is None


# Cold builds, streams, shifts, new shapes


@pytest.mark.parametrize(
    ("caches", "proven"),
    [
        (None, None),
        (Caches(bytes_before=0, bytes_after=900, hits=0), True),
        (Caches(bytes_before=0, bytes_after=0, hits=None), True),
        (Caches(bytes_before=5, bytes_after=900, hits=None), False),
        (Caches(bytes_before=0, bytes_after=900, hits=2), None),
    ],
)
def test_a_build_is_proven_cold_by_caches_that_were_empty_and_gave_nothing(caches: Caches | None, proven: bool | None) -> None:  # noqa: FBT001 - a parameter
    assert only_measurement(summarise(raced(0.1, 0.1, caches=caches), RACES)).build_seconds.proven_cold is proven


def test_where_the_device_streams_the_throughput_is_that_of_calls_nobody_waits_for() -> None:
    streaming = [msgspec.structs.replace(visit, streamed_seconds=0.05) for visit in builders.visits([0.1] * 4)]
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.4] * 4)), "compiled": builders.process(*streaming)})
    (cell,) = only_measurement(summarise(state, RACES)).cells
    assert cell.throughput.value == pytest.approx(20)
    assert cell.seconds.median == pytest.approx(0.1)


def test_a_speed_that_changed_while_it_was_measured_is_told_with_its_size() -> None:
    (cell,) = only_measurement(summarise(raced(0.1, 0.101, 0.1, 0.1, 0.125, 0.126, 0.125, 0.125), RACES)).cells
    assert cell.shift == pytest.approx(0.25, abs=0.01)
    (steady,) = only_measurement(summarise(raced(*[0.1, 0.101] * 4), RACES)).cells
    assert steady.shift == 0.0


def flexed(outcome: str = "served", steady: float | None = 0.01, batch_size: int = 3) -> dict[int, Flexed]:
    made = Flexed(batch_size=batch_size, outcome=outcome, first_call_seconds=0.1, steady_seconds=steady, reason=None)  # type: ignore[arg-type]
    return {batch_size: made}


@pytest.mark.parametrize(
    ("seconds", "eagers", "new_shapes"),
    [(0.01, 0.02, "served"), (0.0199, 0.02, "recompiles"), (0.03, 0.02, "recompiles"), (0.03, None, "served")],
)
def test_a_clear_gain_that_is_gone_for_a_new_shape_is_a_silent_fall_back(seconds: float, eagers: float | None, new_shapes: str) -> None:
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.4] * 4), flexed=flexed(steady=eagers)),
            "compiled": builders.process(*builders.visits([0.1] * 4), flexed=flexed(steady=seconds)),
        }
    )
    assert only_measurement(summarise(state, RACES)).new_shapes == new_shapes


def test_an_arm_without_a_clear_gain_has_none_to_lose() -> None:
    state = builders.run_state(
        {
            BASELINE: builders.process(*builders.visits([0.11] * 4), flexed=flexed(steady=0.02)),
            "compiled": builders.process(*builders.visits([0.1] * 4), flexed=flexed(steady=0.02)),
        }
    )
    assert only_measurement(summarise(state, RACES)).new_shapes == "served"


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        (["served"], "served"),
        (["served", "stalled"], "recompiles"),
        (["eager", "served"], "recompiles"),
        (["stalled", "refused"], "refused"),
        (["wrong"], "refused"),
    ],
)
def test_new_shapes_are_as_good_as_the_worst_of_them(outcomes: list[str], word: str) -> None:
    tried = {size: flexed(outcome, batch_size=size)[size] for size, outcome in enumerate(outcomes, start=2)}
    assert only_measurement(summarise(raced(0.1, 0.1, flexed=tried), RACES)).new_shapes == word


def test_stalls_are_counted_in_kept_and_discarded_calls() -> None:
    visits = builders.visits([0.01] * 4)
    stalled = (
        msgspec.structs.replace(visits[0], lead_seconds=(0.9,)),
        msgspec.structs.replace(visits[1], seconds=(0.01, 0.01, 0.7)),
        *visits[2:],
    )
    state = builders.run_state({BASELINE: builders.process(*builders.visits([0.01] * 4)), "compiled": builders.process(*stalled)})
    results = summarise(state, RACES)
    assert only_measurement(results).visits.stalled_calls == 2
    assert results.visits.stalled_calls == 2
