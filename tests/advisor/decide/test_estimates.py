"""Estimates of means, of the variance between processes, and of what a covariate explains."""

from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide.intervals import (
    TRIMMED_SHARE,
    count_kept,
    pooled_variance,
    trimmed_mean,
    variance_between,
    variance_of_trimmed_mean,
    winsorize,
)
from advisor.decide.rounds import MIN_PAIRS, adjust, explains

values = st.lists(
    st.integers(-1000, 1000).map(lambda number: number / 1000), min_size=2, max_size=40
)


@given(values)
def test_the_mean_and_its_standard_error_are_those_of_scipy(rounds: list[float]) -> None:
    from scipy.stats import mstats, trim_mean  # noqa: PLC0415 - slow to import

    assert trimmed_mean(rounds) == pytest.approx(trim_mean(rounds, TRIMMED_SHARE))
    assert winsorize(rounds) == pytest.approx(
        mstats.winsorize(np.array(rounds), (TRIMMED_SHARE, TRIMMED_SHARE)).tolist()
    )


@given(values)
def test_without_a_cut_the_variance_is_that_of_the_mean(rounds: list[float]) -> None:
    few = rounds[:4]
    assert count_kept(len(few)) == len(few)
    assert variance_of_trimmed_mean(few) == pytest.approx(statistics.variance(few) / len(few))


def test_the_standard_error_follows_tukey_and_mclaughlin() -> None:
    rounds = [1.0, 2.0, 3.0, 4.0, 100.0]
    # Winsorized: 2, 2, 3, 4, 4 with a variance of 1; three values are kept.
    assert count_kept(5) == 3
    assert math.sqrt(variance_of_trimmed_mean(rounds)) == pytest.approx(math.sqrt(4 / 6))
    assert trimmed_mean(rounds) == 3.0


def test_one_value_is_kept() -> None:
    assert trimmed_mean([0.5]) == 0.5


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


def test_what_the_covariate_explains_is_removed() -> None:
    noise = random.Random(0)
    covariate = [noise.gauss(0.1, 0.2) for _ in range(13)]
    values = [0.7 + 0.9 * each + noise.gauss(0, 0.01) for each in covariate]
    adjusted = adjust(values, covariate)
    assert statistics.fmean(adjusted) == pytest.approx(0.7, abs=0.02)
    assert statistics.stdev(adjusted) < 0.2 * statistics.stdev(values)


def test_an_unrelated_covariate_changes_nothing_in_most_series() -> None:
    noise, found = random.Random(1), 0
    for _ in range(400):
        covariate = [noise.gauss(0, 0.1) for _ in range(13)]
        found += explains([noise.gauss(0, 0.1) for _ in range(13)], covariate)
    assert found < 400 * 0.02


def test_a_slower_host_that_makes_calls_faster_explains_nothing() -> None:
    covariate = [number / 10 for number in range(10)]
    values = [-each for each in covariate]
    assert adjust(values, covariate) == tuple(values)


def test_few_or_constant_readings_explain_nothing() -> None:
    few = list(range(MIN_PAIRS - 1))
    assert adjust(few, few) == tuple(few)
    assert adjust([1.0, 2.0] * 5, [0.3] * 10) == (1.0, 2.0) * 5
