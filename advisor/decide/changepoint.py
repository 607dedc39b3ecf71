"""Detect a change of an arm's speed during its race, and stalled calls.

The input is the series of log differences to the baseline by round, so drift that affects both
arms cancels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from advisor.decide.intervals import t_quantile

#: Rounds that each side of a change must have; fewer show no spread.
MIN_ROUNDS = 3
#: Probability of a false alarm in a series without a change, over all possible places.
FALSE_ALARM_PROBABILITY = 0.001
#: A call stalls when it takes at least this many times the typical seconds and at least this long:
#: the stack compiled or captured something in it.
STALL_RATIO, STALL_SECONDS = 10.0, 0.25


def find_shift(differences: Sequence[float], margin: float) -> float:
    """Return the largest change of the level of `differences`.

    Returns 0 where the change is noise or below `margin`. The function compares the two sides of
    every place as two samples with a common variance; a trend shows as a change in its middle. The
    false-alarm probability is divided by the number of places (Bonferroni).
    """
    splits = range(MIN_ROUNDS, len(differences) - MIN_ROUNDS + 1)
    if not splits:
        return 0.0
    limit = t_quantile(1 - FALSE_ALARM_PROBABILITY / 2 / len(splits), len(differences) - 2)
    split = max(splits, key=lambda split: _t_statistic(differences[:split], differences[split:]))
    before, after = differences[:split], differences[split:]
    shift = statistics.fmean(after) - statistics.fmean(before)
    return shift if abs(shift) > margin and _t_statistic(before, after) > limit else 0.0


def _t_statistic(before: Sequence[float], after: Sequence[float]) -> float:
    """Return Student's t of two samples with a common variance; infinite without any variance."""
    shift = abs(statistics.fmean(after) - statistics.fmean(before))
    squares = statistics.pvariance(before) * len(before) + statistics.pvariance(after) * len(after)
    error = math.sqrt(squares / (len(before) + len(after) - 2) * (1 / len(before) + 1 / len(after)))
    if error == 0:
        return math.inf if shift else 0.0
    return shift / error


def count_stalls(seconds: Sequence[float], typical_seconds: float) -> int:
    """Return the number of calls that stalled."""
    return sum(each > max(STALL_RATIO * typical_seconds, STALL_SECONDS) for each in seconds)
