"""Remove from differences what a covariate that was read next to them explains."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from advisor.statistics.intervals import t_quantile

#: Fewer pairs do not show a relation.
MIN_PAIRS = 6
#: Probability of finding a relation where there is none, two-sided.
FALSE_ALARM_PROBABILITY = 0.01


def explains(values: Sequence[float], covariate: Sequence[float]) -> bool:
    """Return whether `values` follow the covariate: a positive slope that is not chance."""
    slope, error = _slope(values, covariate)
    if error is None:
        return False
    limit = t_quantile(1 - FALSE_ALARM_PROBABILITY / 2, len(values) - 2)
    return slope > limit * error


def adjust(values: Sequence[float], covariate: Sequence[float]) -> tuple[float, ...]:
    """Return what `values` would be at a covariate of 0 by linear regression.

    They stay as they are where the covariate does not explain them.
    """
    if not explains(values, covariate):
        return tuple(values)
    slope, _ = _slope(values, covariate)
    return tuple(value - slope * each for value, each in zip(values, covariate, strict=True))


def _slope(values: Sequence[float], covariate: Sequence[float]) -> tuple[float, float | None]:
    """Return the slope of the regression line and its standard error; None if it has none."""
    count = len(values)
    if count < MIN_PAIRS:
        return 0.0, None
    mean_value, mean_covariate = statistics.fmean(values), statistics.fmean(covariate)
    spread = sum((each - mean_covariate) ** 2 for each in covariate)
    if spread == 0:
        return 0.0, None
    slope = (
        sum(
            (each - mean_covariate) * (value - mean_value)
            for value, each in zip(values, covariate, strict=True)
        )
        / spread
    )
    residual = sum(
        (value - mean_value - slope * (each - mean_covariate)) ** 2
        for value, each in zip(values, covariate, strict=True)
    )
    return slope, math.sqrt(residual / (count - 2) / spread)
