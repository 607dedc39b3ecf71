"""Confidence intervals of means of log differences, and of medians."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

#: Standard errors in half of a 95 % interval.
HALF_INTERVAL = 1.96
#: Fewer values show no autocorrelation.
MIN_AUTOCORRELATED = 4
#: Highest autocorrelation that is assumed; a series of some ten values cannot show a higher one.
MOST_CORRELATION = 0.9


class Estimate(NamedTuple):
    """A value with the bounds of its confidence interval.

    A bound is infinite where the data do not bound the value.
    """

    low: float
    value: float
    high: float

    def exp(self) -> Estimate:
        """Return the ratio whose logarithm this estimates."""
        return Estimate(*(math.inf if bound == math.inf else math.exp(bound) for bound in self))


def paired_interval(differences: Sequence[float], level: float) -> Estimate:
    """Return the mean of `differences` with bounds by Student's t distribution.

    Each bound fails with probability `level`. Fewer than two differences have infinite bounds.
    """
    if not differences:
        return Estimate(-math.inf, 0.0, math.inf)
    mean = statistics.fmean(differences)
    if len(differences) == 1:
        return Estimate(-math.inf, mean, math.inf)
    half_width = (
        t_quantile(1 - level, len(differences) - 1)
        * statistics.stdev(differences)
        / math.sqrt(len(differences))
    )
    return Estimate(mean - half_width, mean, mean + half_width)


def effective_count(values: Sequence[float]) -> float:
    """Return the number of independent values with the same information, from 2 to their number.

    It follows from the autocorrelation at lag one, as for a first-order autoregressive series:
    n (1 - r) / (1 + r). The estimate of r is corrected for its bias of about -1 / n. Negative
    autocorrelation counts as none.
    """
    count = len(values)
    if count < MIN_AUTOCORRELATED:
        return float(count)
    mean = statistics.fmean(values)
    residuals = [value - mean for value in values]
    total = sum(residual**2 for residual in residuals)
    if total == 0:
        return float(count)
    lagged = sum(one * two for one, two in itertools.pairwise(residuals)) / total
    correlation = min(max(lagged + 1 / count, 0.0), MOST_CORRELATION)
    return max(count * (1 - correlation) / (1 + correlation), 2.0)


def correlated_interval(differences: Sequence[float], level: float) -> Estimate:
    """Return the mean with bounds like `paired_interval`, for differences that are autocorrelated.

    Slow changes of the machine make successive rounds alike; they count as fewer rounds.
    """
    estimate = paired_interval(differences, level)
    count = len(differences)
    effective = effective_count(differences)
    if count < MIN_AUTOCORRELATED or effective == count:
        return estimate
    half_width = (
        t_quantile(1 - level, effective - 1) * statistics.stdev(differences) / math.sqrt(effective)
    )
    return Estimate(estimate.value - half_width, estimate.value, estimate.value + half_width)


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the quantile of Student's t distribution."""
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import, and most commands never race

    return float(stdtrit(degrees_of_freedom, probability))


def geometric_mean_interval(
    samples: Sequence[Sequence[float]], confidence: float, *, correlated: bool = False
) -> Estimate:
    """Return the mean of the means of `samples` with a two-sided interval.

    Each sample holds the log differences of one batch size. All samples have the same weight. The
    degrees of freedom follow Welch and Satterthwaite.
    """
    mean = statistics.fmean(statistics.fmean(sample) for sample in samples)
    if any(len(sample) < 2 for sample in samples):  # noqa: PLR2004 - one value has no spread
        return Estimate(-math.inf, mean, math.inf)
    counts = [effective_count(each) if correlated else float(len(each)) for each in samples]
    variances = [
        statistics.variance(sample) / count for sample, count in zip(samples, counts, strict=True)
    ]
    total = sum(variances)
    if total == 0:
        return Estimate(mean, mean, mean)
    degrees_of_freedom = total**2 / sum(
        variance**2 / (count - 1) for variance, count in zip(variances, counts, strict=True)
    )
    quantile = t_quantile((1 + confidence) / 2, max(int(degrees_of_freedom), 1))
    half_width = quantile * math.sqrt(total) / len(samples)
    return Estimate(mean - half_width, mean, mean + half_width)


def median_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return the order statistics that hold the median with at least `confidence`.

    Returns None for too few values. The interval is distribution-free: the probability that fewer
    than `rank` of `n` values fall below the median is binomial.
    """
    ordered = sorted(values)
    n = len(ordered)
    rank, tail = 0, 0.0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    return (ordered[rank - 1], ordered[n - rank]) if rank else None


def typical_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return an interval of the typical one of these positive values; None for a single value.

    It is that of the median. Where there are too few values for it, it is that of the geometric
    mean by Student's t distribution, which always holds the median too.
    """
    bounds = median_interval(values, confidence)
    if bounds is not None or len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return bounds
    mean = paired_interval([math.log(value) for value in values], (1 - confidence) / 2).exp()
    return mean.low, mean.high


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
