"""When is a stack warm? MSER-5: cut off the beginning whose removal makes the mean of the rest most certain.

White, "An effective truncation heuristic for bias reduction in simulation output" (1997), on the
medians of batches of five calls, which keeps single outliers out. A cut beyond the middle says that
the steady state has not been seen yet.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

#: Calls in a batch. Long calls are batches of their own: five of them would take too long.
BATCH_CALLS = 5
LONG_CALL_SECONDS = 0.05
#: Batches without which nothing can be said, without which a cut means nothing, and which must be
#: left after it.
FEWEST_BATCHES, ENOUGH_BATCHES, FEWEST_LEFT = 5, 12, 4
#: Where there is time for only a few batches, they are steady when those of their second half are
#: this close to each other.
CLOSE = 0.1


@dataclasses.dataclass(frozen=True)
class Cut:
    """Where the steady part of a series begins, whether there is one, and whether there were calls enough to be sure."""

    calls: int
    steady: bool
    enough: bool


def find_cut(seconds: Sequence[float]) -> Cut:
    """Return where `seconds`, the times of successive calls, become steady."""
    middle = len(seconds) // 2
    size = BATCH_CALLS if statistics.median(seconds[middle:]) < LONG_CALL_SECONDS else 1
    batches = [
        statistics.median(seconds[start : start + size])
        for start in range(0, len(seconds) - size + 1, size)
    ]
    if len(batches) < FEWEST_BATCHES:
        return Cut(middle, steady=False, enough=False)
    half = len(batches) // 2
    if len(batches) < ENOUGH_BATCHES:
        rest = batches[half:]
        return Cut(half * size, steady=max(rest) <= min(rest) * (1 + CLOSE), enough=False)
    errors = squared_errors(batches)[: len(batches) - FEWEST_LEFT + 1]
    best = errors.index(min(errors))
    return Cut(best * size, steady=best <= half, enough=True)


def squared_errors(values: Sequence[float]) -> list[float]:
    """Return, for each cut, the variance of what is left over its number: the square of what the mean may be wrong by.

    One pass from the end, because a short call makes thousands of batches.
    """
    errors: list[float] = []
    mean = squares = 0.0
    for count, value in enumerate(reversed(values), start=1):
        before = value - mean
        mean += before / count
        squares += before * (value - mean)
        errors.append(squares / count / count)
    return errors[::-1]
