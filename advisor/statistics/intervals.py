"""Interval estimates that the race and the measurements rest on."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence


def paired_interval(differences: Sequence[float], level: float) -> tuple[float, float, float]:
    """Return lower bound, mean and upper bound of the mean of `differences`; each bound fails with probability `level`."""
    if not differences:
        return -math.inf, 0.0, math.inf
    mean = statistics.fmean(differences)
    if len(differences) == 1:
        return -math.inf, mean, math.inf
    half = (
        t_quantile(1 - level, len(differences) - 1)
        * statistics.stdev(differences)
        / math.sqrt(len(differences))
    )
    return mean - half, mean, mean + half


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution."""
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import, and most commands never race

    return float(stdtrit(degrees_of_freedom, probability))


def geometric_mean_interval(
    samples: Sequence[Sequence[float]], confidence: float
) -> tuple[float, float, float]:
    """Return lower bound, value and upper bound of the mean of the samples' means, two-sided.

    Each sample holds the log differences of one cell; the cells weigh the same. The degrees of
    freedom are Welch and Satterthwaite's.
    """
    mean = statistics.fmean(statistics.fmean(sample) for sample in samples)
    if any(len(sample) < 2 for sample in samples):  # noqa: PLR2004 - one value has no spread
        return -math.inf, mean, math.inf
    variances = [statistics.variance(sample) / len(sample) for sample in samples]
    total = sum(variances)
    if total == 0:
        return mean, mean, mean
    freedom = total**2 / sum(
        variance**2 / (len(sample) - 1) for variance, sample in zip(variances, samples, strict=True)
    )
    half = t_quantile((1 + confidence) / 2, max(int(freedom), 1)) * math.sqrt(total) / len(samples)
    return mean - half, mean, mean + half


def median_interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return the order statistics that hold the median with at least `confidence`; None when there are too few values.

    Distribution-free: the chance that fewer than `rank` of `n` values fall below the median is
    binomial.
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
