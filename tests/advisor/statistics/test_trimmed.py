"""The trimmed mean against SciPy's, and the cases at the ends."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.statistics.intervals import (
    TRIMMED_SHARE,
    count_kept,
    trimmed_mean,
    variance_of_trimmed_mean,
    winsorize,
)

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
