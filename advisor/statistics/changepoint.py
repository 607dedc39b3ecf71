"""Did an arm's speed change while it was measured?

Differences to the baseline, round by round, say so: what drifts meets both. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from advisor.statistics.intervals import t_quantile

#: Rounds that each side of a change must have: fewer show no spread of their own.
FEWEST_ROUNDS = 3
#: How often a series without a change may be said to have one, over all the places where it could
#: be.
FALSE_ALARMS = 0.001
#: A call this much longer than the typical one, and at least this long, is a stall that a user
#: would notice: a build, a recording.
STALL_RATIO, STALL_SECONDS = 10.0, 0.25


def find_shift(differences: Sequence[float], margin: float) -> float:
    """Return by how much the level of `differences` changes at the place where it changes most; 0 where that is noise or below `margin`.

    Two samples with a common variance are compared at every place; a trend shows as a change in its
    middle. The level is divided by the places (Bonferroni).
    """
    places = range(FEWEST_ROUNDS, len(differences) - FEWEST_ROUNDS + 1)
    if not places:
        return 0.0
    limit = t_quantile(1 - FALSE_ALARMS / 2 / len(places), len(differences) - 2)
    place = max(places, key=lambda place: _significance(differences[:place], differences[place:]))
    before, after = differences[:place], differences[place:]
    shift = statistics.fmean(after) - statistics.fmean(before)
    return shift if abs(shift) > margin and _significance(before, after) > limit else 0.0


def _significance(before: Sequence[float], after: Sequence[float]) -> float:
    """Return Student's statistic of two samples with a common variance; infinite where nothing varies but the level."""
    shift = abs(statistics.fmean(after) - statistics.fmean(before))
    squares = statistics.pvariance(before) * len(before) + statistics.pvariance(after) * len(after)
    error = math.sqrt(squares / (len(before) + len(after) - 2) * (1 / len(before) + 1 / len(after)))
    if error == 0:
        return math.inf if shift else 0.0
    return shift / error


def count_stalls(seconds: Sequence[float], typical_seconds: float) -> int:
    """Return how many of these calls took so much longer than the typical one that something else was done in them."""
    return sum(each > max(STALL_RATIO * typical_seconds, STALL_SECONDS) for each in seconds)
