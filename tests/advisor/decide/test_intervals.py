"""Intervals against textbook values, their properties, and what differs between processes."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from fractions import Fraction

import builders
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import process_variance
from advisor.decide.intervals import (
    CONFIDENCE,
    TRIMMED_SHARE,
    Estimate,
    Variance,
    effective_share,
    mean_interval,
    mean_of_samples,
    median_interval,
    paired_interval,
    t_quantile,
    trimmed_mean,
    variance_of_trimmed_mean,
    winsorize,
)
from advisor.domain.measurement import Interval
from probes.shape import Shape

logarithms = st.integers(-1000, 1000).map(lambda number: number / 1000)
values = st.lists(logarithms, min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("probability", "degrees_of_freedom", "expected"),
    [(0.975, 2, 4.302653), (0.995, 30, 2.749996), (0.025, 10, -2.228139)],
)
def test_quantiles_match_published_tables(
    probability: float, degrees_of_freedom: int, expected: float
) -> None:
    assert t_quantile(probability, degrees_of_freedom) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("differences", [[], [0.3]])
def test_fewer_than_two_differences_have_infinite_bounds(differences: list[float]) -> None:
    assert paired_interval(differences, 0.025) == (-math.inf, sum(differences), math.inf)


def test_a_paired_interval_uses_students_t() -> None:
    half = 4.302653 / math.sqrt(3)
    expected = pytest.approx((2 - half, 2, 2 + half), abs=1e-6)
    assert paired_interval([1.0, 2.0, 3.0], 0.025) == expected


@given(values, st.sampled_from([0.2, 0.05, 0.01]))
def test_a_smaller_failure_probability_never_narrows_the_interval(
    differences: list[float], level: float
) -> None:
    narrow = paired_interval(differences, level)
    wide = paired_interval(differences, level / 2)
    assert wide.value == narrow.value
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high


SAMPLE = [0.1, 0.25, 0.2, 0.4]
HALF_OF_SAMPLE = 3.182446 * 0.125 / math.sqrt(4)
#: Squared standard errors 1/3 and 5/3: 4 / ((1/9) / 2 + (25/9) / 3) = 4.075 degrees of freedom.
WELCH_SATTERTHWAITE = 2.756285 * math.sqrt(2) / 2


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([SAMPLE], (0.2375 - HALF_OF_SAMPLE, 0.2375, 0.2375 + HALF_OF_SAMPLE)),
        ([[0.5] * 2, [0.25] * 10], (0.375, 0.375, 0.375)),
        ([[0.1, 0.2], [0.3]], (-math.inf, 0.225, math.inf)),
        (
            [[1, 2, 3], [10, 12, 14, 16]],
            (7.5 - WELCH_SATTERTHWAITE, 7.5, 7.5 + WELCH_SATTERTHWAITE),
        ),
    ],
    ids=["one", "without spread", "a single value", "unequal variances"],
)
def test_samples_have_the_same_weight_and_their_common_error(
    samples: list[list[float]], expected: tuple[float, float, float]
) -> None:
    assert mean_of_samples(samples) == pytest.approx(expected, abs=1e-6)


@given(
    # Of more values the order matters, because they may be autocorrelated.
    st.lists(st.lists(logarithms, min_size=2, max_size=7), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_samples_and_values_does_not_matter(
    samples: list[list[float]], generator: random.Random
) -> None:
    shuffled = [
        generator.sample(sample, len(sample)) for sample in generator.sample(samples, len(samples))
    ]
    assert mean_of_samples(shuffled) == pytest.approx(mean_of_samples(samples))


def test_an_estimate_of_a_logarithm_becomes_a_ratio_with_bounds() -> None:
    ratio = Estimate(math.log(0.5), 0.0, math.log(4)).ratio
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.5, 1.0, 4.0))
    assert Estimate(-math.inf, 0.0, math.inf).ratio == Interval(value=1.0, low=None, high=None)


@pytest.mark.parametrize("count", [*range(1, 40), 1100])
def test_the_median_interval_is_the_narrowest_that_has_the_confidence(count: int) -> None:
    def missed(rank: int) -> Fraction:
        """Return the probability that the median lies outside the order statistics of this rank."""
        return Fraction(2 * sum(math.comb(count, below) for below in range(rank)), 2**count)

    bounds = median_interval(random.Random(0).sample(range(1, count + 1), count))
    rank = int(bounds[0]) if bounds else 0
    if bounds:
        assert bounds[1] == count + 1 - rank
        assert missed(rank) <= 1 - CONFIDENCE
    narrowest = (count + 1) // 2
    assert rank == narrowest or missed(rank + 1) > 1 - CONFIDENCE


def test_a_mean_interval_keeps_every_value() -> None:
    assert mean_interval([0.0] * 9 + [1.0], 0.025).value == pytest.approx(0.1)
    assert mean_interval([], 0.025) == (-math.inf, 0.0, math.inf)


def test_a_burst_in_a_few_rounds_moves_the_paired_interval_little() -> None:
    noise = random.Random(0)
    rounds = [noise.gauss(0, 0.01) for _ in range(20)]
    disturbed = [*rounds[:17], 0.7, 0.8, 0.9]
    steady, burst = paired_interval(rounds, 0.025), paired_interval(disturbed, 0.025)
    assert abs(burst.value - steady.value) < 0.01
    assert burst.high < 0.02
    assert mean_interval(disturbed, 0.025).high > 0.2


def test_independent_values_count_almost_fully() -> None:
    noise = random.Random(0)
    shares = [effective_share([noise.gauss(0, 1) for _ in range(40)]) for _ in range(200)]
    assert statistics.fmean(shares) > 0.75


@pytest.mark.parametrize(
    ("series", "low", "high"),
    [
        ([math.sin(number / 8) for number in range(40)], 0.0, 0.15),
        ([0.0, 1.0] * 10, 1.0, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 1.0, 1.0),
    ],
    ids=["slow wander", "alternating", "few"],
)
def test_the_effective_share_follows_the_autocorrelation(
    series: list[float], low: float, high: float
) -> None:
    assert low <= effective_share(series) <= high


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_intervals_of_disturbed_rounds_have_their_coverage(spread: float) -> None:
    noise = random.Random(1)
    held = 0
    for _ in range(2_000):
        rounds = [noise.gauss(0, 0.02) for _ in range(13)]
        rounds = [each + (noise.random() < 0.1) * noise.gauss(0, spread) for each in rounds]
        interval = paired_interval(rounds, 0.025)
        held += interval.low <= 0 <= interval.high
    assert 0.93 <= held / 2_000 <= 0.985


def test_the_interval_of_autocorrelated_differences_is_wider() -> None:
    wander = [math.sin(number / 8) for number in range(40)]
    plain, correlated = paired_interval(wander, 0.025), mean_of_samples([wander])
    assert correlated.value == plain.value
    assert correlated.low < plain.low
    few = [1.0, 2.0, 3.0]
    assert mean_of_samples([few]) == pytest.approx(paired_interval(few, 0.025))


@given(st.lists(logarithms, min_size=2, max_size=40))
def test_the_mean_and_its_standard_error_are_those_of_scipy(rounds: list[float]) -> None:
    from scipy.stats import mstats, trim_mean  # noqa: PLC0415 - slow to import

    assert trimmed_mean(rounds) == pytest.approx(trim_mean(rounds, TRIMMED_SHARE))
    assert winsorize(rounds) == pytest.approx(
        mstats.winsorize(np.array(rounds), (TRIMMED_SHARE, TRIMMED_SHARE)).tolist()
    )


def test_the_standard_error_follows_tukey_and_mclaughlin() -> None:
    rounds = [1.0, 2.0, 3.0, 4.0, 100.0]
    # Winsorized: 2, 2, 3, 4, 4 with a variance of 1; three values are kept.
    assert variance_of_trimmed_mean(rounds) == pytest.approx(4 / 6)


PRIOR = builders.replace(builders.NOISE, process_deviation=0.01, weight=2)


def variances_of(**series: Sequence[Sequence[float]]) -> dict[str, Variance]:
    """Return the variance of each arm from its rounds by process; `same` is the duplicate."""
    at_one_size = {arm: {Shape(1): processes} for arm, processes in series.items()}
    estimated = process_variance.estimate_process_variances(at_one_size, "same", PRIOR)
    return {arm: by_shape[Shape(1)] for arm, by_shape in estimated.items()}


def test_without_any_difference_the_prior_alone_counts() -> None:
    found = variances_of(compiled=[(0.5, 0.5)])["compiled"]
    assert found.value == pytest.approx(2 * 0.01**2)
    assert found.degrees_of_freedom == 2


def test_a_duplicate_that_differs_widens_the_intervals_of_all_arms() -> None:
    variances = variances_of(compiled=[(0.5, 0.5)], same=[(0.3, 0.3)])
    assert variances["compiled"].value == pytest.approx((2 * 2e-4 + 0.09) / 3)


def test_an_arm_that_differs_from_process_to_process_counts_more_for_itself() -> None:
    variances = variances_of(steady=[(0.5,) * 4, (0.5,) * 4], lucky=[(0.5,) * 4, (0.9,) * 4])
    assert variances["lucky"].value > variances["steady"].value > 2 * 2e-4


def test_noise_of_the_rounds_is_not_counted_as_a_difference_of_processes() -> None:
    noise = random.Random(0)
    rounds = [tuple(noise.gauss(0.0, 0.5) for _ in range(10)) for _ in range(2)]
    assert math.sqrt(variances_of(noisy=rounds)["noisy"].value) < 0.15


def test_batch_sizes_are_estimated_apart() -> None:
    series = {"same": {Shape(1): [(0.3, 0.3)], Shape(16): [(0.0, 0.0)]}}
    variances = process_variance.estimate_process_variances(series, "same", PRIOR)["same"]
    assert variances[Shape(1)].value > 100 * variances[Shape(16)].value


def test_three_processes_of_an_arm_count_more_than_those_of_the_others() -> None:
    wild = [(level,) * 4 for level in (0.0, 0.3, 0.6)]
    variances = variances_of(wild=wild, steady=[(0.5,) * 4] * 3)
    assert variances["wild"].degrees_of_freedom == 3
    assert variances["wild"].value > 2 * variances["steady"].value


def simulate(
    generator: random.Random, processes: int, rounds: int, *, between: float, within: float
) -> list[list[float]]:
    """Return log differences by process and round with these standard deviations."""
    centres = [generator.gauss(0, between) for _ in range(processes)]
    return [[generator.gauss(centre, within) for _ in range(rounds)] for centre in centres]


@pytest.mark.parametrize("number", [3, 5])
def test_intervals_over_processes_nearly_have_their_nominal_coverage(number: int) -> None:
    """The value of an arm of speed-up 1 is 0; a second arm and a duplicate vary alike."""
    noise, covered = random.Random(3), 0
    for _ in range(600):
        processes, other, same = (
            simulate(noise, each, 7, between=0.03, within=0.02) for each in (number, number, 1)
        )
        error = variances_of(arm=processes, other=other, same=same)["arm"]
        between = t_quantile(0.975, error.degrees_of_freedom) * math.sqrt(error.value / number)
        within = mean_of_samples(processes)
        half_width = math.hypot((within.high - within.low) / 2, between)
        covered += abs(statistics.fmean(map(trimmed_mean, processes))) <= half_width
    assert covered / 600 >= 0.92


def test_the_variance_between_processes_is_estimated_without_bias() -> None:
    generator = random.Random(1)
    found = [
        process_variance.variance_between(simulate(generator, 5, 7, between=0.004, within=0.02))
        for _ in range(2000)
    ]
    # The estimate is cut off at 0, so its mean is a little above the truth.
    assert 0.004**2 * 0.9 < statistics.fmean(found) < 0.004**2 * 2


def test_processes_that_differ_less_than_their_rounds_have_no_variance_between_them() -> None:
    assert process_variance.variance_between([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]) == 0.0


def test_the_common_variance_counts_as_one_process() -> None:
    # Rounds without noise: the variance of the means is that between the processes.
    processes = [[0.0] * 4, [0.1] * 4, [0.2] * 4]
    assert process_variance.pooled_variance(processes, 0.04) == pytest.approx((0.04 + 2 * 0.01) / 3)
