"""The trimmed mean of rounds, which a burst of load in a few of them hardly moves.

Source: Tukey and McLaughlin, "Less vulnerable confidence and significance procedures for location
based on a single sample" (Sankhya A 25, 1963): the mean of the values that are left when a fifth
is cut off at each end; its standard error comes from the winsorized variance.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

#: Share of the values that is cut off at each end.
TRIMMED_SHARE = 0.2


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
