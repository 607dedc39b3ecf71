"""The level of a series of times that other work on the machine does not disturb.

Other work makes calls slower and never faster, so the fastest times vary least from run to run.
Source: Chen and Revels, "Robust benchmarking in noisy environments" (arXiv:1608.04295, 2016), which
takes the minimum. The fifth percentile does not depend on a single time.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

#: Share of the times that lie below the level.
FASTEST_SHARE = 0.05
#: Resamples of the processes, drawn from a fixed seed: the same times have the same error.
RESAMPLES = 400


class LevelDifference(NamedTuple):
    """The difference between the levels of two series of logarithms, and its standard error."""

    value: float
    standard_error: float


def undisturbed_level(processes: Sequence[Sequence[float]]) -> float:
    """Return the `FASTEST_SHARE` quantile of the times of all processes."""
    ordered = sorted(time for each in processes for time in each)
    position = FASTEST_SHARE * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def level_difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> LevelDifference:
    """Return the level of `first` minus that of `second`.

    Each has a series of logarithms for each process; processes with the same index ran at the same
    time, at least two. The standard error is that of resampled indices, which is too small by the
    square root of (n - 1) / n and is corrected for that.
    """
    count, drawn = len(first), random.Random(0)  # noqa: S311 - no secret
    differences = []
    for _ in range(RESAMPLES):
        indices = drawn.choices(range(count), k=count)
        differences.append(
            undisturbed_level([first[index] for index in indices])
            - undisturbed_level([second[index] for index in indices])
        )
    return LevelDifference(
        undisturbed_level(first) - undisturbed_level(second),
        statistics.stdev(differences) * math.sqrt(count / (count - 1)),
    )
