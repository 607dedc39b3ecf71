"""Tests of the estimates over repetitions in fresh processes."""

from __future__ import annotations

import random
import statistics

import pytest

from advisor.statistics.replication import pooled_variance, variance_between


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


def test_the_common_variance_counts_as_one_process() -> None:
    # Rounds without noise: the variance of the means is that between the processes.
    processes = [[0.0] * 4, [0.1] * 4, [0.2] * 4]
    assert pooled_variance(processes, 0.04) == pytest.approx((0.04 + 2 * 0.01) / 3)
