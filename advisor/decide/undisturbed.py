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


#: Fewer calls have no tail: their fastest ones are the middle.
FEWEST_CALLS = 10
#: Share of the calls that lie below the level: the fastest one of up to a hundred. Next to one
#: busy process, 3 of 66 calls of a small network with many parallel regions were undisturbed.
FASTEST_CALL_SHARE = 0.01
#: Most values that a resample looks at; more are thinned evenly.
MOST_VALUES = 4000


def fastest_call(visits: Sequence[Sequence[float]]) -> float | None:
    """Return the `FASTEST_CALL_SHARE` quantile of the seconds of all calls; None for few calls."""
    calls = sorted(second for each in visits for second in each)
    if len(calls) < FEWEST_CALLS:
        return None
    return calls[math.ceil(FASTEST_CALL_SHARE * len(calls)) - 1]


def fastest_call_error(visits: Sequence[Sequence[float]]) -> float:
    """Return the standard error of the logarithm of `fastest_call`, by resampling the visits."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only a busy machine needs it

    lengths = np.array([len(each) for each in visits])
    calls = np.concatenate([np.array(each) for each in visits])
    order = np.argsort(calls)
    step = max(1, len(order) // MOST_VALUES)
    owners = np.repeat(np.arange(len(visits)), lengths)[order[::step]]
    stream = np.random.RandomState(0)
    drawn = stream.multinomial(len(visits), [1 / len(visits)] * len(visits), size=RESAMPLES)
    below = np.cumsum(drawn[:, owners], axis=1) * step
    first = np.argmax(below >= FASTEST_CALL_SHARE * (drawn @ lengths)[:, np.newaxis], axis=1)
    return float(np.std(np.log(calls[order[::step]][first]), ddof=1))
