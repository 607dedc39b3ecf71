"""Correct and compare the times of an arm where the speed of the machine changes between visits.

A speed-up compares visits of one round, so it holds while the machine speeds up or slows down. The
median times of two arms do not: each falls into the fast or the slow state by chance, and an arm
that took part in few rounds saw few states. Arms that were called without a pause show whether
their results in the race hold then. Over many processes, the visits that other work disturbed least
show best whether an arm has become slower.

Changes of an arm's speed during its race and stalled calls are detected in the series of log
differences to the baseline by round, in which drift that affects both arms cancels.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.decide.intervals import t_quantile, trimmed_mean
from advisor.decide.rounds import log_median_seconds, visits_by_round
from advisor.domain.measurement import CallSeconds, Interval, Measurement, UndisturbedSpeedup
from advisor.domain.results import SustainedCheck
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.events import STALL_RATIO, STALL_SECONDS, BlockTimed
from probes.wire.shape import Shape


def typical_seconds(visits: Sequence[BlockTimed]) -> float:
    return statistics.median(statistics.median(visit.seconds) for visit in visits)


def correct_drift(
    visits: Sequence[BlockTimed], baseline_visits: Sequence[BlockTimed], speedup: float
) -> list[BlockTimed]:
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


def bound_by_speedups(measurement: Measurement, baseline: Measurement | None) -> Measurement:
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


def check_sustained(
    state: RunState,
    log_speedups: Mapping[str, Mapping[Shape, Sequence[float]]],
    margins: Mapping[Shape, float],
) -> SustainedCheck | None:
    """Compare two arms called without a pause with their result in the race; None without both.

    The log speed-ups are by arm and shape, the margins, as shares, by shape.
    """
    processes = {
        arm: process
        for arm, each in state.processes.items()
        for process in each
        if process.sustained
    }
    if len(processes) != 2:  # noqa: PLR2004 - a pair
        return None
    first, second = processes
    shape = processes[first].sustained[0].shape
    raced = [log_speedups.get(arm, {}).get(shape) for arm in (first, second)]
    if not (raced[0] and raced[1]):
        return None
    burst = trimmed_mean(raced[0]) - trimmed_mean(raced[1])
    sustained = math.log(
        _sustained_seconds(processes[second]) / _sustained_seconds(processes[first])
    )
    return SustainedCheck(
        shape=shape,
        arms=(first, second),
        burst_ratio=math.exp(burst),
        sustained_ratio=math.exp(sustained),
        agrees=abs(burst - sustained) <= math.log1p(margins[shape]),
        joules_per_call={arm: _joules_per_call(process) for arm, process in processes.items()},
    )


def _sustained_seconds(process: ProcessState) -> float:
    return statistics.fmean(each.seconds / each.calls for each in process.sustained)


def _joules_per_call(process: ProcessState) -> float | None:
    joules = [each.joules for each in process.energy]
    known = [each for each in joules if each is not None]
    if not joules or len(known) < len(joules):
        return None
    return sum(known) / sum(each.calls for each in process.sustained)


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


def count_stalls(seconds: Sequence[float], typical_seconds: float) -> int:
    return sum(each > max(STALL_RATIO * typical_seconds, STALL_SECONDS) for each in seconds)


#: Share of the times that lie below the level.
FASTEST_SHARE = 0.05
#: Resamples of processes or visits, drawn from a fixed seed: the same times have the same error.
RESAMPLES = 400


def undisturbed_level(processes: Sequence[Sequence[float]]) -> float:
    """Return the `FASTEST_SHARE` quantile of all times, which does not depend on a single one."""
    ordered = sorted(time for each in processes for time in each)
    position = FASTEST_SHARE * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


#: Of fewer processes too few may be undisturbed, and resampling shows too small an error: in
#: simulations, twice as many intervals of three to five processes miss the truth as should.
FEWEST_PROCESSES = 6


def compare_undisturbed(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> UndisturbedSpeedup:
    """Return the speed-up between the levels of the baseline's times and those of an arm.

    Each has a series of logarithms for each process; processes with the same index ran at the same
    time, at least two. The standard error is that of resampled indices, which is too small by the
    square root of (n - 1) / n and is corrected for that.
    """
    count, drawn = len(ours), random.Random(0)  # noqa: S311 - no secret
    differences = []
    for _ in range(RESAMPLES):
        indices = drawn.choices(range(count), k=count)
        differences.append(
            undisturbed_level([ours[index] for index in indices])
            - undisturbed_level([theirs[index] for index in indices])
        )
    return UndisturbedSpeedup(
        value=math.exp(undisturbed_level(ours) - undisturbed_level(theirs)),
        log_error=statistics.stdev(differences) * math.sqrt(count / (count - 1)),
        processes=count,
    )


def summarise_undisturbed(
    state: RunState, baseline: str, arm: str, shape: Shape
) -> UndisturbedSpeedup | None:
    """None with fewer than `FEWEST_PROCESSES` processes of both, which do not show its error."""
    ours, theirs = [], []
    for repeat in (0, *sorted(state.repeats)):
        rounds = visits_by_round(state, shape, repeat).values()
        shared = [visits for visits in rounds if baseline in visits and arm in visits]
        if shared:
            ours.append([log_median_seconds(visits[baseline]) for visits in shared])
            theirs.append([log_median_seconds(visits[arm]) for visits in shared])
    return compare_undisturbed(ours, theirs) if len(ours) >= FEWEST_PROCESSES else None
