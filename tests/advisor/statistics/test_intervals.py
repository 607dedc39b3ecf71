"""The estimates against textbook values, and the properties that every interval must have."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.statistics.intervals import (
    geometric_mean_interval,
    median_interval,
    paired_interval,
    t_quantile,
)

logarithms = st.integers(-1000, 1000).map(lambda number: number / 1000)
samples = st.lists(logarithms, min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("probability", "degrees_of_freedom", "expected"),
    [
        (0.5, 7, 0.0),
        (0.95, 5, 2.015048),
        (0.975, 2, 4.302653),
        (0.975, 10, 2.228139),
        (0.995, 30, 2.749996),
        (0.025, 10, -2.228139),
    ],
)
def test_quantiles_are_those_of_the_tables(
    probability: float, degrees_of_freedom: int, expected: float
) -> None:
    assert t_quantile(probability, degrees_of_freedom) == pytest.approx(expected, abs=1e-6)


def test_no_difference_says_nothing() -> None:
    assert paired_interval([], 0.025) == (-math.inf, 0.0, math.inf)


def test_one_difference_has_a_mean_and_no_bounds() -> None:
    assert paired_interval([0.3], 0.025) == (-math.inf, 0.3, math.inf)


def test_a_paired_interval_is_students() -> None:
    half = 4.302653 / math.sqrt(3)
    assert paired_interval([1.0, 2.0, 3.0], 0.025) == pytest.approx(
        (2 - half, 2, 2 + half), abs=1e-6
    )


@given(samples, st.sampled_from([0.2, 0.05, 0.01]))
def test_an_interval_that_may_fail_less_often_is_at_least_as_wide(
    differences: list[float], level: float
) -> None:
    low, mean, high = paired_interval(differences, level)
    wider_low, wider_mean, wider_high = paired_interval(differences, level / 2)
    assert wider_mean == mean
    assert wider_low <= low <= mean <= high <= wider_high


def test_one_cell_gives_the_paired_interval() -> None:
    sample = [0.1, 0.25, 0.2, 0.4]
    assert geometric_mean_interval([sample], 0.95) == pytest.approx(paired_interval(sample, 0.025))


def test_cells_weigh_the_same_however_often_they_were_measured() -> None:
    _, value, _ = geometric_mean_interval([[0.0, 0.0], [1.0] * 10], 0.95)
    assert value == pytest.approx(0.5)


def test_the_degrees_of_freedom_of_unlike_cells_are_welch_and_satterthwaites() -> None:
    # Squared standard errors 1/3 and 5/3: 4 / ((1/9) / 2 + (25/9) / 3) = 4.08 degrees of freedom,
    # of which 4 count.
    half = 2.776445 * math.sqrt(2) / 2
    assert geometric_mean_interval([[1, 2, 3], [10, 12, 14, 16]], 0.95) == pytest.approx(
        (7.5 - half, 7.5, 7.5 + half), abs=1e-6
    )


def test_a_cell_measured_once_leaves_the_mean_without_bounds() -> None:
    assert geometric_mean_interval([[0.1, 0.2], [0.3]], 0.95) == pytest.approx(
        (-math.inf, 0.225, math.inf)
    )


def test_cells_without_spread_have_an_interval_without_width() -> None:
    assert geometric_mean_interval([[0.5, 0.5], [0.25, 0.25, 0.25]], 0.95) == (0.375, 0.375, 0.375)


@given(st.lists(samples, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_cells_and_rounds_does_not_matter(
    cells: list[list[float]], chance: random.Random
) -> None:
    shuffled = [chance.sample(cell, len(cell)) for cell in chance.sample(cells, len(cells))]
    assert geometric_mean_interval(shuffled, 0.95) == pytest.approx(
        geometric_mean_interval(cells, 0.95)
    )


def test_five_values_are_too_few_to_hold_the_median_with_95_percent() -> None:
    assert median_interval([3, 1, 2, 5, 4], 0.95) is None


@pytest.mark.parametrize(
    ("count", "ranks"), [(6, (1, 6)), (9, (2, 8)), (12, (3, 10)), (20, (6, 15)), (100, (40, 61))]
)
def test_the_median_lies_between_the_order_statistics_of_the_tables(
    count: int, ranks: tuple[int, int]
) -> None:
    values = random.Random(0).sample(range(1, count + 1), count)
    assert median_interval(values, 0.95) == ranks


@pytest.mark.parametrize("count", [*range(1, 40), 1100])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_no_narrower_order_statistics_hold_the_median(count: int, confidence: float) -> None:
    def missed(rank: int) -> Fraction:
        """Return the chance that the median of the population lies outside the values of this rank from below and above."""
        return Fraction(2 * sum(math.comb(count, below) for below in range(rank)), 2**count)

    bounds = median_interval(list(range(1, count + 1)), confidence)
    rank = int(bounds[0]) if bounds else 0
    if bounds:
        assert bounds[1] == count + 1 - rank
        assert missed(rank) <= 1 - confidence
    narrowest = (count + 1) // 2
    assert rank == narrowest or missed(rank + 1) > 1 - confidence


@given(samples)
def test_the_interval_of_the_median_holds_the_median(values: list[float]) -> None:
    bounds = median_interval(values, 0.8)
    assert bounds is None or bounds[0] <= statistics.median(values) <= bounds[1]
