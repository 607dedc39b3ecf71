"""Estimate a mean and its variance over repetitions in fresh processes.

Source: Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013), for two levels:
rounds within processes, and processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from advisor.statistics.intervals import Estimate, paired_interval

#: Fewer processes do not give a usable variance between processes.
MIN_PROCESSES = 3


def variance_between(processes: Sequence[Sequence[float]]) -> float:
    """Return the variance of log differences between processes, never below 0.

    Each process is a series of log differences by round. The unbiased estimate is the variance of
    the processes' means less the share of it that the rounds within the processes cause.
    """
    within = statistics.fmean(statistics.variance(rounds) for rounds in processes)
    of_means = statistics.variance(statistics.fmean(rounds) for rounds in processes)
    rounds = statistics.harmonic_mean([len(series) for series in processes])
    return max(of_means - within / rounds, 0.0)


def interval_over_processes(processes: Sequence[Sequence[float]], level: float) -> Estimate:
    """Return the mean of the processes' means; each bound fails with probability `level`."""
    return paired_interval([statistics.fmean(rounds) for rounds in processes], level)
