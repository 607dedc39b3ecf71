"""Intervals of means of log differences and of medians, trimmed means of rounds, regression."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from advisor.domain.measurement import Interval

#: An array of float64.
Array: TypeAlias = Any


class _Numpy:
    """Imports NumPy when it first computes: most commands do without."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever NumPy has
        import numpy  # noqa: ICN001 - `np` is this object

        return getattr(numpy, name)


np: Any = _Numpy()
CONFIDENCE = 0.95
#: Probability with which each bound of a two-sided interval fails.
TAIL = 0.025
#: Standard errors in half of such an interval.
HALF_INTERVAL = 1.96
#: Fewest values whose autocorrelation is estimated; with fewer the estimate is mostly chance.
MIN_AUTOCORRELATED = 8
#: Highest autocorrelation that is assumed; a series of some ten values cannot show a higher one.
MOST_CORRELATION = 0.9
#: Degrees of freedom of many autocorrelated values; with one, an interval bounds nothing.
LEAST_FREEDOM = 3


class Estimate(NamedTuple):
    """A value with the bounds of its confidence interval.

    A bound is infinite where the data do not bound the value.
    """

    low: float
    value: float
    high: float

    @property
    def ratio(self) -> Interval:
        """The ratio whose logarithm this estimates; null stands for infinite bounds."""
        low, high = (
            math.exp(each) if math.isfinite(each) else None for each in (self.low, self.high)
        )
        return Interval(value=math.exp(self.value), low=low, high=high)


class Variance(NamedTuple):
    """An estimated variance, and its degrees of freedom."""

    value: float
    degrees_of_freedom: float


def mean_interval(values: Sequence[float], level: float) -> Estimate:
    """Return the mean of `values` with bounds by Student's t distribution.

    Each bound fails with probability `level`. Fewer than two values have infinite bounds.
    """
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return Estimate(-math.inf, statistics.fmean(values or [0.0]), math.inf)
    return _interval_of(
        statistics.fmean(values), statistics.variance(values) / len(values), len(values) - 1, level
    )


def paired_interval(differences: Sequence[float], level: float) -> Estimate:
    """Return the trimmed mean of the differences by round, with bounds like `mean_interval`."""
    if len(differences) < 2:  # noqa: PLR2004 - one value has no spread
        return mean_interval(differences, level)
    return _interval_of(
        trimmed_mean(differences),
        variance_of_trimmed_mean(differences),
        count_kept(len(differences)) - 1,
        level,
    )


def _interval_of(
    value: float, variance: float, degrees_of_freedom: float, level: float
) -> Estimate:
    half_width = t_quantile(1 - level, degrees_of_freedom) * math.sqrt(variance)
    return Estimate(value - half_width, value, value + half_width)


def _degrees_of_freedom(values: Sequence[float], share: float) -> float:
    """Return the degrees of freedom of the trimmed mean when this share of the values counts.

    Autocorrelation, whose estimate is uncertain itself, leaves at least `LEAST_FREEDOM`.
    """
    kept = count_kept(len(values))
    return max(kept * share - 1, float(min(kept - 1, LEAST_FREEDOM)))


def effective_share(values: Sequence[float]) -> float:
    """Return how many independent values have the same information, as a share of their number.

    It follows from the autocorrelation at lag one of the winsorized values, as for a first-order
    autoregressive series: (1 - r) / (1 + r). The estimate of r is corrected for its bias of about
    -1 / n. Negative autocorrelation counts as none.
    """
    count = len(values)
    if count < MIN_AUTOCORRELATED:
        return 1.0
    winsorized = winsorize(values)
    mean = statistics.fmean(winsorized)
    residuals = [value - mean for value in winsorized]
    total = sum(residual**2 for residual in residuals)
    if total == 0:
        return 1.0
    lagged = sum(one * two for one, two in itertools.pairwise(residuals)) / total
    correlation = min(max(lagged + 1 / count, 0.0), MOST_CORRELATION)
    return (1 - correlation) / (1 + correlation)


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, probability))


def mean_of_samples(
    samples: Sequence[Sequence[float]], weights: Sequence[float] | None = None
) -> Estimate:
    """Return the mean of the trimmed means of `samples` with a two-sided interval.

    Each sample holds the log differences of one shape or process. Slow changes of the machine make
    successive ones alike; they count as fewer. What differs between processes is not included.
    Without `weights` all samples have the same; those with a weight of 0 do not count. The degrees
    of freedom follow Welch and Satterthwaite.
    """
    counted = [
        (sample, weight)
        for sample, weight in zip(samples, weights or [1.0] * len(samples), strict=True)
        if weight > 0
    ]
    samples = [sample for sample, _ in counted]
    whole = sum(weight for _, weight in counted)
    factors = [weight * len(counted) / whole for _, weight in counted]
    mean = statistics.fmean(
        factor * trimmed_mean(sample) for sample, factor in zip(samples, factors, strict=True)
    )
    if any(len(sample) < 2 for sample in samples):  # noqa: PLR2004 - one value has no spread
        return Estimate(-math.inf, mean, math.inf)
    shares = [effective_share(each) for each in samples]
    variances = [
        factor**2 * variance_of_trimmed_mean(sample) / share
        for sample, share, factor in zip(samples, shares, factors, strict=True)
    ]
    total = sum(variances)
    if total == 0:
        return Estimate(mean, mean, mean)
    squares = sum(
        variance**2 / _degrees_of_freedom(sample, share)
        for sample, share, variance in zip(samples, shares, variances, strict=True)
    )
    return _interval_of(mean, total / len(samples) ** 2, max(total**2 / squares, 1.0), TAIL)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the order statistics that hold the median with at least `CONFIDENCE`.

    Returns None for too few values. The interval is distribution-free: the probability that fewer
    than `rank` of `n` values fall below the median is binomial.
    """
    ordered = sorted(values)
    n = len(ordered)
    rank, tail = 0, 0.0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 1 - CONFIDENCE:
            break
        rank += 1
    return (ordered[rank - 1], ordered[n - rank]) if rank else None


def typical_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the bounds of the typical one of these positive values; None for a single value.

    It is that of the median. Where there are too few values for it, it is that of the geometric
    mean by Student's t distribution, which always holds the median too.
    """
    if bounds := median_interval(values):
        return bounds
    mean = mean_interval([math.log(value) for value in values], TAIL).ratio
    return mean.low, mean.high


def nearest_rank(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


#: Share of the values that is cut off at each end.
TRIMMED_SHARE = 0.2


def weighted_mean(values_with_weights: Iterable[tuple[float, float]]) -> float:
    counted = list(values_with_weights)
    return math.fsum(value * weight for value, weight in counted) / math.fsum(
        weight for _, weight in counted
    )


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the highest and the lowest fifth, rounded down; of at least one."""
    cut = _cut(len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def count_kept(count: int) -> int:
    """Return how many of `count` values the trimmed mean keeps."""
    return count - 2 * _cut(count)


def winsorize(values: Sequence[float]) -> list[float]:
    """Return the values in their order, those that are cut off replaced by the nearest kept one."""
    cut, ordered = _cut(len(values)), sorted(values)
    lowest, highest = ordered[cut], ordered[len(values) - 1 - cut]
    return [min(max(value, lowest), highest) for value in values]


def variance_of_trimmed_mean(values: Sequence[float]) -> float:
    """Return the variance of the trimmed mean of at least two independent values."""
    count, kept = len(values), count_kept(len(values))
    return statistics.variance(winsorize(values)) * (count - 1) / (kept * (kept - 1))


def _cut(count: int) -> int:
    return int(TRIMMED_SHARE * count)


#: Fewer processes do not give a usable variance between processes.
MIN_PROCESSES = 3
