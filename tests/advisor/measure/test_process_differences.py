"""What differs between equal processes is part of every interval."""

from __future__ import annotations

import math
import random

import pytest

from advisor.domain.catalogue import NoisePrior
from advisor.measure.process_differences import estimate_process_variances

PRIOR = NoisePrior(process_deviation=0.01, weight=2)


def test_without_any_difference_the_prior_alone_counts() -> None:
    variances = estimate_process_variances({"compiled": {1: [(0.5, 0.5)]}}, None, PRIOR)
    assert variances["compiled"][1].variance == pytest.approx(2 * 0.01**2)
    assert variances["compiled"][1].degrees_of_freedom == 2


def test_a_duplicate_that_differs_widens_the_intervals_of_all_arms() -> None:
    series = {"compiled": {1: [(0.5, 0.5)]}, "same": {1: [(0.3, 0.3)]}}
    variances = estimate_process_variances(series, "same", PRIOR)
    assert variances["compiled"][1].variance == pytest.approx((2 * 2e-4 + 0.09) / 3)


def test_an_arm_that_differs_from_process_to_process_counts_more_for_itself() -> None:
    series = {"steady": {1: [(0.5,) * 4, (0.5,) * 4]}, "lucky": {1: [(0.5,) * 4, (0.9,) * 4]}}
    variances = estimate_process_variances(series, None, PRIOR)
    assert variances["lucky"][1].variance > variances["steady"][1].variance > 2 * 2e-4


def test_noise_of_the_rounds_is_not_counted_as_a_difference_of_processes() -> None:
    noise = random.Random(0)
    rounds = [tuple(noise.gauss(0.0, 0.5) for _ in range(10)) for _ in range(2)]
    (variances,) = estimate_process_variances({"noisy": {1: rounds}}, None, PRIOR).values()
    assert math.sqrt(variances[1].variance) < 0.15


def test_batch_sizes_are_estimated_apart() -> None:
    series = {"same": {1: [(0.3, 0.3)], 16: [(0.0, 0.0)]}}
    variances = estimate_process_variances(series, "same", PRIOR)["same"]
    assert variances[1].variance > 100 * variances[16].variance
