"""Detect the end of a warm-up with MSER-5.

The beginning is cut off whose removal minimises the variance of the mean of the rest. The method is
that of White, "An effective truncation heuristic for bias reduction in simulation output" (1997).
It works on the medians of batches of five calls, which are insensitive to single outliers. A cut
beyond the middle means that the steady state has not been reached.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

#: Calls in a batch. A long call is a batch of its own, because five of them would take too long.
BATCH_CALLS = 5
LONG_CALL_SECONDS = 0.05
#: The minimum of batches for a decision, for a decision by MSER, and after the cut.
MIN_BATCHES, MIN_MSER_BATCHES, MIN_BATCHES_LEFT = 5, 12, 4
#: With fewer batches than MSER needs, those of the second half must be this close to each other.
MAX_SPREAD = 0.1


@dataclasses.dataclass(frozen=True)
class Cut:
    """Where the steady part of a series begins."""

    #: The number of calls before it.
    calls: int
    #: Whether there is a steady part, and whether the series is long enough to be certain.
    steady: bool
    enough: bool


def find_cut(seconds: Sequence[float]) -> Cut:
    """Return where `seconds`, the durations of successive calls, become steady."""
    middle = len(seconds) // 2
    size = BATCH_CALLS if statistics.median(seconds[middle:]) < LONG_CALL_SECONDS else 1
    batches = [
        statistics.median(seconds[start : start + size])
        for start in range(0, len(seconds) - size + 1, size)
    ]
    if len(batches) < MIN_BATCHES:
        return Cut(middle, steady=False, enough=False)
    half = len(batches) // 2
    if len(batches) < MIN_MSER_BATCHES:
        rest = batches[half:]
        return Cut(half * size, steady=max(rest) <= min(rest) * (1 + MAX_SPREAD), enough=False)
    variances = variances_of_means(batches)[: len(batches) - MIN_BATCHES_LEFT + 1]
    best = variances.index(min(variances))
    return Cut(best * size, steady=best <= half, enough=True)


def variances_of_means(values: Sequence[float]) -> list[float]:
    """Return, for each cut, the variance of the rest over its length.

    That is the squared standard error of the mean of the rest. The computation is one pass from the
    end, because short calls make thousands of batches.
    """
    variances: list[float] = []
    mean = squares = 0.0
    for count, value in enumerate(reversed(values), start=1):
        deviation = value - mean
        mean += deviation / count
        squares += deviation * (value - mean)
        variances.append(squares / count / count)
    return variances[::-1]
