import math

import builders
import msgspec
import pytest

from advisor.domain.measurement import CallSeconds, Cell, Interval, Measurement, Throughput
from advisor.measure import include_process_differences

RACES = (builders.race_result(1, noise_floor=0.71), builders.race_result(4, noise_floor=0.02))


def cell(batch_size: int, *, processes: int = 1) -> Cell:
    return Cell(
        batch_size=batch_size,
        seconds=CallSeconds(median=0.01, low=None, high=None, samples=100),
        throughput=Throughput(value=100.0, unit="samples/s"),
        speedup=Interval(value=1.89, low=1.69, high=2.11),
        tflops=None,
        processes=processes,
    )


def test_no_interval_is_narrower_than_two_equal_workers_agree_to() -> None:
    one = builders.measurement(cells=(cell(1), cell(4)))
    widened = include_process_differences(one, RACES, builders.BASELINE)
    for each, race in zip(widened.cells, RACES, strict=True):
        low, high, floor = each.speedup.low, each.speedup.high, race.noise_floor
        assert low
        assert high
        assert floor
        assert low < min(1.69, 1.89 / (1 + floor))
        assert high > max(2.11, 1.89 * (1 + floor))
    assert widened.speedup.between is not None


def test_widening_twice_widens_once() -> None:
    once = include_process_differences(
        builders.measurement(cells=(cell(1),)), RACES, builders.BASELINE
    )
    assert include_process_differences(once, RACES, builders.BASELINE) == once


@pytest.mark.parametrize(
    "unchanged",
    [
        builders.measurement(builders.BASELINE, cells=(cell(1),)),
        builders.measurement(cells=(cell(1, processes=3), cell(4, processes=3))),
    ],
)
def test_the_baseline_and_replicated_arms_stay_as_they_are(unchanged: Measurement) -> None:
    assert include_process_differences(unchanged, RACES, builders.BASELINE) == unchanged


def test_an_unknown_noise_floor_or_bound_stays_unknown() -> None:
    races = (builders.race_result(1, noise_floor=None),)
    one = builders.measurement(cells=(cell(1),))
    assert include_process_differences(one, races, builders.BASELINE) == one
    unbounded = msgspec.structs.replace(one, speedup=Interval(value=2.0, low=None, high=None))
    widened = include_process_differences(unbounded, RACES, builders.BASELINE)
    assert widened.speedup.low is None
    assert math.isclose(widened.speedup.value, 2.0)
