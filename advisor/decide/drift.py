"""Correct the times of an arm for changes of the machine's speed between visits.

A speed-up compares visits of one round, so it holds while the machine speeds up or slows down. The
median times of two arms do not: each falls into the fast or the slow state by chance, and an arm
that took part in few rounds saw few states. Arms that were called without a pause show whether
their results in the race hold then.

Changes of an arm's speed during its race and stalled calls are detected in the series of log
differences to the baseline by round, in which drift that affects both arms cancels.

To each speed-up's interval is added what differs between equal processes. In a run this variance is
estimated from the difference of the baseline and its duplicate and from the arms that ran in
several processes. A document of a run has only the noise floor: the 95 % bound of the difference
between the baseline and its duplicate. Either is added in quadrature to the interval from the
rounds within the processes.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from advisor.decide.intervals import (
    HALF_INTERVAL,
    MIN_PROCESSES,
    pooled_variance,
    process_variance,
    t_quantile,
    trimmed_mean,
    variance_of_mean,
)
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import CallSeconds, Interval, Measurement
from advisor.domain.results import SustainedCheck
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.events import BlockTimed
from probes.wire.shape import Shape


def typical_seconds(visits: Sequence[BlockTimed]) -> float:
    """Return the median over the visits of each visit's median."""
    return statistics.median(statistics.median(visit.seconds) for visit in visits)


def correct_drift(
    visits: Sequence[BlockTimed], baseline_visits: Sequence[BlockTimed], speedup: float
) -> list[BlockTimed]:
    """Return the visits with their times multiplied by one factor.

    With it, `typical_seconds` of the visits is that of the baseline divided by the speed-up.
    """
    factor = typical_seconds(baseline_visits) / speedup / typical_seconds(visits)
    return [_multiplied(visit, factor) for visit in visits]


def _multiplied(visit: BlockTimed, factor: float) -> BlockTimed:
    return dataclasses.replace(
        visit,
        seconds=tuple(factor * each for each in visit.seconds),
        first_token_seconds=tuple(factor * each for each in visit.first_token_seconds),
    )


def bound_by_speedups(measurement: Measurement, baseline: Measurement) -> Measurement:
    """Return the measurement with bounds of its call times that fit its speed-ups.

    A time is the baseline's over the speed-up, and its logarithmic half widths are the root of the
    sum of the squares of both. The baseline keeps the bounds of its own visits.
    """
    if measurement.arm == baseline.arm:
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
    if not (baseline.low and baseline.high and speedup.low and speedup.high):
        return msgspec.structs.replace(seconds, low=None, high=None)
    # A greater speed-up is a shorter time.
    shorter = math.hypot(
        math.log(baseline.median / baseline.low), math.log(speedup.high / speedup.value)
    )
    longer = math.hypot(
        math.log(baseline.high / baseline.median), math.log(speedup.value / speedup.low)
    )
    return msgspec.structs.replace(
        seconds,
        low=seconds.median * math.exp(-shorter),
        high=seconds.median * math.exp(longer),
    )


def check_sustained(
    state: RunState,
    log_speedups: Mapping[str, Mapping[Shape, Sequence[float]]],
    margins: Mapping[Shape, float],
) -> SustainedCheck | None:
    """Compare two arms called without a pause with their result in the race; None without both.

    The log speed-ups are by arm and batch size, the margins, as shares, by batch size.
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


#: Upper end of a two-sided 95 % interval.
PROBABILITY = 0.975


#: Log speed-ups over the baseline by arm, shape and process, in the order of the rounds.
SeriesByArm = Mapping[str, Mapping[Shape, Sequence[Sequence[float]]]]


class ProcessVariance(NamedTuple):
    """Variance of the log ratio of two equal processes, and its degrees of freedom."""

    variance: float
    degrees_of_freedom: float


def estimate_process_variances(
    series: SeriesByArm, duplicate: str | None, prior: NoisePrior
) -> dict[str, dict[Shape, ProcessVariance]]:
    """Return the variance between processes by arm and shape.

    All arms share what the duplicate and the repeated arms show. An arm's own repetitions count in
    addition, because some stacks differ more from process to process than others; from
    `MIN_PROCESSES` processes on they count most.
    """
    differences = {
        (arm, shape): _process_differences(processes, is_duplicate=arm == duplicate)
        for arm, shapes in series.items()
        for shape, processes in shapes.items()
    }
    prior_variance = 2 * prior.process_deviation**2
    variances: dict[str, dict[Shape, ProcessVariance]] = {arm: {} for arm in series}
    for (arm, shape), own_differences in differences.items():
        found = [
            each
            for (other, of_shape), all_ in differences.items()
            if of_shape == shape
            for each in all_
        ]
        common = process_variance(*_split(found), prior_variance, prior.weight)
        usable = [rounds for rounds in series[arm][shape] if len(rounds) > 1]
        if len(usable) >= MIN_PROCESSES:
            variances[arm][shape] = ProcessVariance(pooled_variance(usable, common), len(usable))
            continue
        own = [] if arm == duplicate else own_differences
        variances[arm][shape] = ProcessVariance(
            process_variance(*_split(own), common, prior.weight), prior.weight + len(found)
        )
    return variances


def _process_differences(
    processes: Sequence[Sequence[float]], *, is_duplicate: bool
) -> list[tuple[float, float]]:
    """Return differences of the size of two equal processes, with the variance of their rounds.

    The duplicate differs from the baseline by one process each. The speed-ups of an arm in two
    repetitions differ by two processes each, so their difference is divided by the square root of
    two.
    """
    usable = [rounds for rounds in processes if len(rounds) > 1]
    means = [trimmed_mean(rounds) for rounds in usable]
    within = [variance_of_mean(rounds) for rounds in usable]
    if is_duplicate:
        return list(zip(means, within, strict=True))
    return [
        ((means[index + 1] - means[index]) / math.sqrt(2), (within[index + 1] + within[index]) / 2)
        for index in range(len(usable) - 1)
    ]


def _split(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def widen_by_variances(
    measurement: Measurement, variances: Mapping[Shape, ProcessVariance], baseline: str
) -> Measurement:
    """Return the measurement with intervals that hold what a fresh process would show."""
    if measurement.arm == baseline or not measurement.cells or not variances:
        return measurement
    errors = {
        cell.shape: _error_between(variances[cell.shape], cell.processes)
        for cell in measurement.cells
    }
    return widen_by_errors(measurement, errors)


def _error_between(variance: ProcessVariance, processes: int) -> float:
    """Return half of the 95 % interval of the mean over this number of processes."""
    quantile = t_quantile(PROBABILITY, variance.degrees_of_freedom)
    return quantile * math.sqrt(variance.variance / processes)


def widen_by_errors(measurement: Measurement, errors: Mapping[Shape, float]) -> Measurement:
    """Return the measurement with intervals widened by the log error of each shape.

    One process serves all shapes, so the errors do not average out over them.
    """
    weights = {cell.shape: cell.weight for cell in measurement.cells}
    counted = [(weights.get(shape, 1.0), error) for shape, error in errors.items()]
    whole = sum(weight for weight, _ in counted)
    overall = math.sqrt(sum(weight * error**2 for weight, error in counted) / whole)
    return msgspec.structs.replace(
        measurement,
        speedup=_widen(measurement.speedup, overall),
        cells=tuple(
            cell
            if cell.shape not in errors
            else msgspec.structs.replace(cell, speedup=_widen(cell.speedup, errors[cell.shape]))
            for cell in measurement.cells
        ),
    )


def _widen(speedup: Interval, floor: float) -> Interval:
    """Return the interval with a log difference of up to `floor` between processes.

    An interval that has the difference already stays as it is.
    """
    if speedup.process_error is not None:
        return speedup
    low, high = speedup.low, speedup.high
    return Interval(
        value=speedup.value,
        low=low and speedup.value * math.exp(-math.hypot(math.log(speedup.value / low), floor)),
        high=high and speedup.value * math.exp(math.hypot(math.log(high / speedup.value), floor)),
        process_error=floor / HALF_INTERVAL,
    )
