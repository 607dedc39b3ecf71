"""Tests of the estimates over repetitions in fresh processes."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from advisor.statistics.replication import interval_between_processes, variance_between


def simulate(
    generator: random.Random, processes: int, rounds: int, *, between: float, within: float
) -> list[list[float]]:
    """Return log differences by process and round with these standard deviations."""
    centres = [generator.gauss(0, between) for _ in range(processes)]
    return [[generator.gauss(centre, within) for _ in range(rounds)] for centre in centres]


def test_the_variance_between_processes_is_estimated_without_bias() -> None:
    generator = random.Random(1)
    found = [
        variance_between(simulate(generator, 5, 7, between=0.004, within=0.02)) for _ in range(2000)
    ]
    # The estimate is cut off at 0, so its mean is a little above the truth.
    assert 0.004**2 * 0.9 < statistics.fmean(found) < 0.004**2 * 2


def test_processes_that_differ_less_than_their_rounds_have_no_variance_between_them() -> None:
    assert variance_between([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_the_interval_includes_the_differences_between_processes() -> None:
    processes = [[0.00, 0.01, 0.00], [0.10, 0.11, 0.10], [0.20, 0.21, 0.20]]
    interval = interval_between_processes(processes, 0.025)
    assert interval.value == pytest.approx(0.1033, abs=1e-3)
    assert interval.low < 0
    assert interval.high > 0.2


def test_one_process_gives_infinite_bounds() -> None:
    interval = interval_between_processes([[0.1, 0.2]], 0.025)
    assert interval == pytest.approx((-math.inf, 0.15, math.inf))


@pytest.mark.parametrize("between", [0.0, 0.004])
def test_the_interval_over_processes_has_its_nominal_coverage(between: float) -> None:
    generator = random.Random(2)
    covered = 0
    for _ in range(1000):
        interval = interval_between_processes(
            simulate(generator, 3, 7, between=between, within=0.02), 0.025
        )
        covered += interval.low <= 0 <= interval.high
    assert covered >= 930
