"""A covariate is removed where it explains the values, and only there."""

from __future__ import annotations

import random
import statistics

import pytest

from advisor.measure.rounds import MIN_PAIRS, adjust, explains


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
