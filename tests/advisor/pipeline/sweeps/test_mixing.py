"""The results of a mix of lengths."""

from __future__ import annotations

import math
from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.accuracy import TrainedLoss
from advisor.domain.interval import Interval
from advisor.domain.measurement import (
    BuildSeconds,
    CallSeconds,
    Cell,
    Measurement,
    MemoryBytes,
    Throughput,
    VisitCounts,
)
from advisor.domain.results import Results, SustainedCheck
from advisor.pipeline.sweeps.mixing import LengthResults, mix_intervals, mix_results

speedups = st.floats(0.1, 20)
shares = st.floats(0.01, 100)


def cell(batch_size: int = 1, speedup: float = 2.0, seconds: float = 0.1, **changes: Any) -> Cell:
    made = Cell(
        batch_size=batch_size,
        seconds=CallSeconds(median=seconds, low=seconds * 0.9, high=seconds * 1.1, samples=30),
        throughput=Throughput(value=batch_size / seconds, unit="samples/s"),
        speedup=Interval(value=speedup, low=speedup / 1.1, high=speedup * 1.1),
        tflops=1.0,
    )
    return msgspec.structs.replace(made, **changes)


def at_length(speedup: float, *, seconds: float = 0.1, **changes: Any) -> Results:
    """Return the results at one length: the baseline and `compiled`."""
    compiled = builders.measurement(
        "compiled", speedup=speedup, cells=(cell(speedup=speedup, seconds=seconds),), **changes
    )
    baseline = builders.measurement(BASELINE, speedup=1.0, cells=(cell(speedup=1.0),))
    return builders.results(baseline, compiled)


def compiled_of(results: Results) -> Measurement:
    return next(one for one in results.measurements if one.arm == "compiled")


@given(speedups, speedups, shares)
def test_all_on_one_length_gives_its_results(one: float, two: float, share: float) -> None:
    first, second = at_length(one), at_length(two)
    assert mix_results([LengthResults(share, first), LengthResults(0, second)]) is first


@given(speedups, speedups, shares, shares, st.floats(0.001, 1000))
def test_scaling_the_shares_changes_nothing(
    one: float, two: float, share: float, other: float, factor: float
) -> None:
    first, second = at_length(one), at_length(two)
    plain = compiled_of(mix_results([LengthResults(share, first), LengthResults(other, second)]))
    scaled = compiled_of(
        mix_results([LengthResults(share * factor, first), LengthResults(other * factor, second)])
    )
    assert scaled.speedup.value == pytest.approx(plain.speedup.value)
    assert scaled.speedup.low == pytest.approx(plain.speedup.low)


@given(st.lists(st.tuples(speedups, shares), min_size=2, max_size=5))
def test_the_mean_is_weighted_and_geometric(found: list[tuple[float, float]]) -> None:
    mixed = mix_results([LengthResults(share, at_length(one)) for one, share in found])
    total = sum(share for _, share in found)
    log = sum(share / total * math.log(one) for one, share in found)
    assert compiled_of(mixed).speedup.value == pytest.approx(math.exp(log))


def test_two_equal_halves_have_a_narrower_interval_than_one() -> None:
    part = Interval(value=2.0, low=2.0 / 1.1, high=2.0 * 1.2, process_error=0.01)
    mixed = mix_intervals([(0.5, part), (0.5, part)])
    assert mixed.value == pytest.approx(2)
    assert mixed.low == pytest.approx(2 * 1.1 ** -math.sqrt(0.5))
    assert mixed.high == pytest.approx(2 * 1.2 ** math.sqrt(0.5))
    assert mixed.process_error == pytest.approx(0.01 * math.sqrt(0.5))


def test_an_unbounded_length_leaves_the_mix_unbounded() -> None:
    open_end = Interval(value=2.0, low=None, high=2.5)
    mixed = mix_intervals([(0.5, open_end), (0.5, Interval(value=2.0, low=1.5, high=2.5))])
    assert mixed.low is None
    assert mixed.high is not None


def test_a_length_without_differences_between_processes_leaves_the_mix_without() -> None:
    known, unknown = at_length(2.0), at_length(2.0)
    without = builders.results(*unknown.measurements, races=(builders.race_result(),))
    stripped = msgspec.structs.replace(
        without,
        measurements=tuple(
            msgspec.structs.replace(
                one, speedup=msgspec.structs.replace(one.speedup, process_error=None)
            )
            for one in without.measurements
        ),
    )
    assert compiled_of(known).speedup.process_error is not None
    both = mix_results([LengthResults(1, known), LengthResults(1, known)])
    assert compiled_of(both).speedup.process_error is not None
    mixed = mix_results([LengthResults(1, known), LengthResults(1, stripped)])
    assert compiled_of(mixed).speedup.process_error is None


def test_an_arm_that_a_length_lacks_is_left_out() -> None:
    only_baseline = builders.results(builders.measurement(BASELINE, speedup=1.0))
    mixed = mix_results([LengthResults(1, at_length(2.0)), LengthResults(1, only_baseline)])
    assert [one.arm for one in mixed.measurements] == [BASELINE]


def test_figures_are_the_worst_of_the_lengths() -> None:
    near = builders.checked(accuracy_class="close")
    short = at_length(
        2.0,
        build_seconds=BuildSeconds(cold=9.0, warm=1.0),
        correctness=(near,),
        trained_loss=TrainedLoss(basis="text", loss_class="B"),
    )
    long = at_length(
        2.0,
        memory_bytes=MemoryBytes(peak=900 << 20, source="a test"),
        trained_loss=TrainedLoss(basis="text", loss_class="A"),
        steady=False,
    )
    mixed = compiled_of(mix_results([LengthResults(1, short), LengthResults(1, long)]))
    assert mixed.build_seconds.cold == 9
    assert mixed.memory_bytes.peak == 900 << 20
    assert mixed.correctness == (near, builders.checked())
    assert mixed.trained_loss is not None
    assert mixed.trained_loss.loss_class == "B"
    assert not mixed.steady


def test_an_unknown_figure_of_a_length_is_unknown_in_the_mix() -> None:
    unknown = at_length(2.0, memory_bytes=MemoryBytes(peak=None, source="no counter"))
    mixed = compiled_of(mix_results([LengthResults(1, unknown), LengthResults(1, at_length(2.0))]))
    assert mixed.memory_bytes.peak is None
    assert mixed.trained_loss is None


def test_a_cell_has_the_expected_seconds_of_a_call() -> None:
    parts = [
        LengthResults(3, at_length(2.0, seconds=0.1)),
        LengthResults(1, at_length(4.0, seconds=0.5)),
    ]
    (mixed,) = compiled_of(mix_results(parts)).cells
    assert mixed.seconds.median == pytest.approx(0.2)
    assert mixed.throughput.value == pytest.approx(1 / 0.2)
    assert mixed.speedup.value == pytest.approx(2 ** (3 / 4) * 4 ** (1 / 4))
    assert mixed.seconds.samples == 60
    low = math.hypot(0.75 * 0.01, 0.25 * 0.05)
    assert mixed.seconds.low == pytest.approx(0.2 - low)


def test_a_batch_size_that_a_length_lacks_has_no_cell_and_no_race() -> None:
    wide = builders.measurement("compiled", cells=(cell(1), cell(4)))
    baseline = builders.measurement(BASELINE, cells=(cell(1), cell(4)))
    races = (builders.race_result(1), builders.race_result(4))
    long = builders.results(baseline, wide, races=races)
    mixed = mix_results([LengthResults(1, long), LengthResults(1, at_length(2.0))])
    assert [one.batch_size for one in compiled_of(mixed).cells] == [1]
    assert [race.batch_size for race in mixed.races] == [1]


def test_the_weakest_race_and_the_evidence_of_all_lengths_count() -> None:
    check = SustainedCheck(
        batch_size=1,
        arms=("compiled", BASELINE),
        burst_ratio=2.0,
        sustained_ratio=1.0,
        agrees=False,
        joules_per_call={},
    )
    sure = msgspec.structs.replace(
        at_length(2.0), repeats=2, visits=VisitCounts(made=10, discarded=1, unfit=0)
    )
    weak = msgspec.structs.replace(
        at_length(2.0),
        races=(builders.race_result(verdict="INCONCLUSIVE", noise_floor=0.1),),
        noise_floor=0.1,
        repeats=1,
        visits=VisitCounts(made=10, discarded=2, unfit=5),
        sustained=check,
    )
    mixed = mix_results([LengthResults(1, sure), LengthResults(1, weak)])
    assert mixed.races[0].verdict == "INCONCLUSIVE"
    assert mixed.noise_floor == 0.1
    assert mixed.repeats == 1
    assert mixed.visits == VisitCounts(made=20, discarded=3, unfit=5)
    assert mixed.sustained == check
