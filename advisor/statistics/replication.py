"""What repeating an arm in fresh processes says: how much of the variance lies between processes, and the interval that includes it.

Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013), for two levels: rounds
within processes, and processes. The unbiased variance of a level is its own variance of means less
what the level below contributes.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from advisor.statistics.intervals import paired_interval

#: Processes without which the variance between them is no more than a guess.
FEWEST_PROCESSES = 3


@dataclasses.dataclass(frozen=True)
class Components:
    """Variances of log differences, each its own level's alone."""

    within: float
    between: float


def find_components(processes: Sequence[Sequence[float]]) -> Components:
    """Split the variance of `processes`, each a series of log differences by round; between is never below 0."""
    within = statistics.fmean(statistics.variance(rounds) for rounds in processes)
    means = statistics.variance(statistics.fmean(rounds) for rounds in processes)
    rounds = statistics.harmonic_mean([len(series) for series in processes])
    return Components(within=within, between=max(means - within / rounds, 0.0))


def interval(processes: Sequence[Sequence[float]], level: float) -> tuple[float, float, float]:
    """Return lower bound, mean and upper bound over processes, each bound one-sided at `level`; unbounded with fewer than two."""
    return paired_interval([statistics.fmean(rounds) for rounds in processes], level)


def optimal_rounds(components: Components, process_seconds: float, round_seconds: float) -> int:
    """Return the rounds in a process beyond which a new process is worth more than more rounds."""
    if components.between == 0:
        return math.ceil(process_seconds / round_seconds)
    return max(
        1,
        math.ceil(
            math.sqrt(process_seconds / round_seconds * components.within / components.between)
        ),
    )
