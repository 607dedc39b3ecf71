"""Estimate a mean and its variance over repetitions in fresh processes.

Source: Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013), for two levels:
rounds within processes, and processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from advisor.decide.intervals import (
    Estimate,
    correlated_interval,
    effective_share,
    geometric_mean_interval,
    trimmed_mean,
    variance_of_trimmed_mean,
)

#: Fewer processes do not give a usable variance between processes.
MIN_PROCESSES = 3


def variance_between(processes: Sequence[Sequence[float]]) -> float:
    """Return the variance of log differences between processes, never below 0.

    Each process is a series of log differences by round. The unbiased estimate is the variance of
    the processes' means less the share of it that the rounds within the processes cause.
    """
    within = statistics.fmean(variance_of_trimmed_mean(rounds) for rounds in processes)
    of_means = statistics.variance(trimmed_mean(rounds) for rounds in processes)
    return max(of_means - within, 0.0)


def pooled_variance(processes: Sequence[Sequence[float]], common: float) -> float:
    """Return the variance between processes of one arm, with `common`, that of all arms.

    The common variance counts as one further process, so the estimate has as many degrees of
    freedom as there are processes. docs/method.md has its coverage in simulations.
    """
    own = variance_between(processes)
    return (common + (len(processes) - 1) * own) / len(processes)


def interval_within_processes(processes: Sequence[Sequence[float]], level: float) -> Estimate:
    """Return the mean of the processes' means with the interval of the rounds within them.

    What differs between processes is not included. The degrees of freedom follow Welch and
    Satterthwaite.
    """
    if len(processes) == 1:
        return correlated_interval(processes[0], level)
    return geometric_mean_interval(processes, 1 - 2 * level, correlated=True)


def process_variance(
    differences: Sequence[float], within: Sequence[float], prior: float, prior_weight: float
) -> float:
    """Return the variance of the log ratio of two equal processes.

    Each difference is between equal processes; `within` are the variances that the rounds within
    them cause. Noise of the rounds makes some squared differences smaller than these variances and
    others larger, so only their sum is kept from falling below 0. A few differences may be small by
    chance, so a prior variance counts as `prior_weight` further differences.
    """
    excess = sum(
        difference**2 - rounds for difference, rounds in zip(differences, within, strict=True)
    )
    return (prior_weight * prior + max(excess, 0.0)) / (prior_weight + len(differences))


def variance_of_mean(rounds: Sequence[float]) -> float:
    """Return the variance of the trimmed mean of rounds that may be autocorrelated."""
    return variance_of_trimmed_mean(rounds) / effective_share(rounds)
