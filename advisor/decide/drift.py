"""Correct and compare the times of an arm where the speed of the machine changes between visits.

A speed-up compares visits of one round, so it holds while the machine speeds up or slows down. The
median times of two arms do not: each falls into the fast or the slow state by chance, and an arm
that took part in few rounds saw few states.

Changes of an arm's speed during its race and stalled calls are detected in the series of log
differences to the baseline by round, in which drift that affects both arms cancels.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

import msgspec

from advisor.decide.intervals import t_quantile
from advisor.domain.measurement import CallSeconds, Interval, Measurement
from probes.events import STALL_RATIO, STALL_SECONDS, Visited


def typical_seconds(visits: Sequence[Visited]) -> float:
    return statistics.median(statistics.median(visit.seconds) for visit in visits)


def correct_drift(
    visits: Sequence[Visited], baseline_visits: Sequence[Visited], speedup: float
) -> list[Visited]:
    """Scale the visits so that their typical seconds are the baseline's divided by the speed-up."""
    factor = typical_seconds(baseline_visits) / speedup / typical_seconds(visits)
    return [
        dataclasses.replace(
            visit,
            seconds=tuple(factor * each for each in visit.seconds),
            first_token_seconds=tuple(factor * each for each in visit.first_token_seconds),
        )
        for visit in visits
    ]


def fit_times_to_speedups(measurement: Measurement, baseline: Measurement | None) -> Measurement:
    """Return the measurement with bounds of its call times that fit its speed-ups.

    A time is the baseline's over the speed-up, and its logarithmic half widths are the root of the
    sum of the squares of both. The baseline keeps the bounds of its own visits; without it there
    are no others.
    """
    if baseline is None or measurement.arm == baseline.arm:
        return measurement
    times = {cell.shape: cell.seconds for cell in baseline.cells}
    cells = tuple(
        msgspec.structs.replace(
            cell, seconds=_bounded(cell.seconds, times[cell.shape], cell.speedup)
        )
        for cell in measurement.cells
    )
    return msgspec.structs.replace(measurement, cells=cells)


def _bounded(seconds: CallSeconds, baseline: CallSeconds, speedup: Interval) -> CallSeconds:
    known = Interval(value=baseline.median, low=baseline.low, high=baseline.high)
    (below, above), (slower, faster) = known.log_widths, speedup.log_widths
    # A greater speed-up is a shorter time.
    bounds = Interval.around(seconds.median, math.hypot(below, faster), math.hypot(above, slower))
    return msgspec.structs.replace(seconds, low=bounds.low, high=bounds.high)


#: Rounds that each side of a change must have; fewer show no spread.
MIN_ROUNDS = 3
#: Probability of a false alarm in a series without a change, over all possible places.
FALSE_SHIFT_PROBABILITY = 0.001


def find_shift(differences: Sequence[float], margin: float) -> float:
    """Return the largest change of the level of `differences`; 0 for noise, and below `margin`.

    The two sides of every place are compared as two samples with a common variance; a trend shows
    as a change in its middle. The false-alarm probability is divided by the number of places
    (Bonferroni).
    """
    splits = range(MIN_ROUNDS, len(differences) - MIN_ROUNDS + 1)
    if not splits:
        return 0.0
    limit = t_quantile(1 - FALSE_SHIFT_PROBABILITY / 2 / len(splits), len(differences) - 2)
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


def count_stalls(seconds: Sequence[float], typical: float) -> int:
    return sum(each > max(STALL_RATIO * typical, STALL_SECONDS) for each in seconds)
