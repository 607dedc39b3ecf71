"""What differs between equal processes, and intervals that hold it."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import builders
import msgspec
import pytest

from advisor.decide.intervals import mean_of_samples, t_quantile, trimmed_mean
from advisor.decide.process_variance import (
    estimate_process_variances,
    pooled_variance,
    variance_between,
)
from probes.wire.shape import Shape

PRIOR = msgspec.structs.replace(builders.NOISE, process_deviation=0.01, weight=2)


def test_without_any_difference_the_prior_alone_counts() -> None:
    variances = estimate_process_variances({"compiled": {Shape(1): [(0.5, 0.5)]}}, "", PRIOR)
    assert variances["compiled"][Shape(1)].value == pytest.approx(2 * 0.01**2)
    assert variances["compiled"][Shape(1)].degrees_of_freedom == 2


def test_a_duplicate_that_differs_widens_the_intervals_of_all_arms() -> None:
    series = {"compiled": {Shape(1): [(0.5, 0.5)]}, "same": {Shape(1): [(0.3, 0.3)]}}
    variances = estimate_process_variances(series, "same", PRIOR)
    assert variances["compiled"][Shape(1)].value == pytest.approx((2 * 2e-4 + 0.09) / 3)


def test_an_arm_that_differs_from_process_to_process_counts_more_for_itself() -> None:
    series = {
        "steady": {Shape(1): [(0.5,) * 4, (0.5,) * 4]},
        "lucky": {Shape(1): [(0.5,) * 4, (0.9,) * 4]},
    }
    variances = estimate_process_variances(series, "", PRIOR)
    assert variances["lucky"][Shape(1)].value > variances["steady"][Shape(1)].value > 2 * 2e-4


def test_noise_of_the_rounds_is_not_counted_as_a_difference_of_processes() -> None:
    noise = random.Random(0)
    rounds = [tuple(noise.gauss(0.0, 0.5) for _ in range(10)) for _ in range(2)]
    (variances,) = estimate_process_variances({"noisy": {Shape(1): rounds}}, "", PRIOR).values()
    assert math.sqrt(variances[Shape(1)].value) < 0.15


def test_batch_sizes_are_estimated_apart() -> None:
    series = {"same": {Shape(1): [(0.3, 0.3)], Shape(16): [(0.0, 0.0)]}}
    variances = estimate_process_variances(series, "same", PRIOR)["same"]
    assert variances[Shape(1)].value > 100 * variances[Shape(16)].value


def test_three_processes_of_an_arm_count_more_than_those_of_the_others() -> None:
    wild = [(level,) * 4 for level in (0.0, 0.3, 0.6)]
    series = {"wild": {Shape(1): wild}, "steady": {Shape(1): [(0.5,) * 4] * 3}}
    variances = estimate_process_variances(series, "", PRIOR)
    assert variances["wild"][Shape(1)].degrees_of_freedom == 3
    assert variances["wild"][Shape(1)].value > 2 * variances["steady"][Shape(1)].value


def covers(levels: Sequence[float], rounds: int, noise: random.Random) -> bool:
    """Return whether the interval of a simulated arm of speed-up 1 holds its true value.

    `levels` has the log ratio of each process. A second arm and a duplicate vary alike.
    """
    deviation = 0.02

    def measured(level: float) -> tuple[float, ...]:
        return tuple(noise.gauss(level, deviation) for _ in range(rounds))

    processes = [measured(level) for level in levels]
    other = [measured(noise.gauss(0.0, 0.03)) for _ in levels]
    same = [measured(noise.gauss(0.0, 0.03))]
    series = {"arm": {Shape(1): processes}, "other": {Shape(1): other}, "same": {Shape(1): same}}
    variance = estimate_process_variances(series, "same", PRIOR)["arm"][Shape(1)]
    between = t_quantile(0.975, variance.degrees_of_freedom) * math.sqrt(
        variance.value / len(levels)
    )
    within = mean_of_samples(processes)
    half_width = math.hypot((within.high - within.low) / 2, between)
    return abs(statistics.fmean(map(trimmed_mean, processes))) <= half_width


@pytest.mark.parametrize("processes", [3, 5])
def test_intervals_over_processes_nearly_have_their_nominal_coverage(processes: int) -> None:
    noise = random.Random(3)
    found = [
        covers([noise.gauss(0.0, 0.03) for _ in range(processes)], 7, noise) for _ in range(600)
    ]
    assert statistics.fmean(found) >= 0.92


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
