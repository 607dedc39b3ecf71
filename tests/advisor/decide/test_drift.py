"""Drift of the machine, and changes of speed during a race."""

from __future__ import annotations

import dataclasses
import math
import random

import builders
import built_measurements
import pytest
from builders import BASELINE
from built_measurements import RACES, run_with, summarise

from advisor.decide import drift
from advisor.decide.drift import (
    bound_by_speedups,
    correct_drift,
    typical_seconds,
)
from advisor.domain.measurement import CallSeconds, Interval, Measurement


def test_times_and_speedups_agree_where_the_machine_slowed_down_for_some_rounds() -> None:
    """Half of the rounds take twice as long, and a slow round has one fast visit of the arm."""
    baseline = [0.4, 0.4, 0.4, 0.8, 0.8, 0.8]
    arm = [0.1, 0.1, 0.2, 0.2, 0.2, 0.2]
    results = summarise(run_with(*arm, against=baseline), RACES)
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
    timed = dataclasses.replace(visit, first_token_seconds=(0.1,), streamed_seconds=0.15)
    (corrected,) = correct_drift([timed], builders.visits([0.3, 0.4, 0.5]), speedup=4.0)
    assert typical_seconds([corrected]) == pytest.approx(0.1)
    assert corrected.first_token_seconds == pytest.approx((0.05,))
    assert corrected.streamed_seconds == 0.15


def measured(
    arm: str, median: float, bounds: tuple[float | None, float | None], speedup: Interval
) -> Measurement:
    calls = CallSeconds(median=median, low=bounds[0], high=bounds[1], samples=12)
    cell = built_measurements.cell(seconds=calls, speedup=speedup)
    return builders.measurement(arm, cells=(cell,))


ONE = Interval(value=1.0, low=1.0, high=1.0)


def test_the_error_of_a_time_is_that_of_the_baseline_and_of_the_speedup() -> None:
    baseline = measured(BASELINE, 0.4, (0.4 / 1.03, 0.4 * 1.06), ONE)
    arm = measured("arm", 0.2, (None, None), Interval(value=2.0, low=2 / 1.08, high=2 * 1.04))
    assert bound_by_speedups(baseline, baseline) == baseline
    seconds = bound_by_speedups(arm, baseline).cells[0].seconds
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
    baseline = measured(BASELINE, 0.4, bounds, ONE)
    seconds = (
        bound_by_speedups(measured("arm", 0.2, (0.1, 0.3), speedup), baseline).cells[0].seconds
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


OUTLIER = [each + (0.5 if place == 6 else 0.0) for place, each in enumerate(noise(13, 0.004, 3))]


@pytest.mark.parametrize(
    ("series", "shift"),
    [
        ([0.01 * place + each for place, each in enumerate(noise(13, 0.003, seed=1))], 0.065),
        ([0.0] * 3 + [0.25] * 3, 0.25),
        ([0.0] * 8, 0.0),
        ([0.0] * 6 + [0.015] * 6, 0.0),
        (OUTLIER, 0.0),
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
