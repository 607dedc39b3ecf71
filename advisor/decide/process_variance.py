"""Add to the interval of each speed-up what differs between equal processes.

The variance is estimated from the difference of the baseline and its duplicate and from the arms
that ran in several processes. It is added in quadrature to the interval from the rounds within the
processes.

The variances are those of Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM
2013), for two levels: rounds within processes, and processes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.decide import intervals
from advisor.decide.rounds import LogSpeedups
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Interval, Measurement
from probes.shape import Shape


def estimate_process_variances(
    log_speedups: Mapping[str, LogSpeedups], duplicate: str, prior: NoisePrior
) -> dict[str, dict[Shape, intervals.Variance]]:
    """Return the variance of the log ratio of two equal processes by arm and shape.

    All arms share what the duplicate and the repeated arms show. An arm's own repetitions count in
    addition, because some stacks differ more from process to process than others; from
    `MIN_PROCESSES` processes on they count most.
    """
    differences = {
        (arm, shape): _process_differences(processes, is_duplicate=arm == duplicate)
        for arm, shapes in log_speedups.items()
        for shape, processes in shapes.items()
    }
    prior_variance = 2 * prior.process_deviation**2
    variances: dict[str, dict[Shape, intervals.Variance]] = {arm: {} for arm in log_speedups}
    for (arm, shape), own_differences in differences.items():
        found = [
            each
            for (other, of_shape), all_ in differences.items()
            if of_shape == shape
            for each in all_
        ]
        common = process_variance(found, prior_variance, prior.weight)
        usable = [rounds for rounds in log_speedups[arm][shape] if len(rounds) > 1]
        if len(usable) >= intervals.MIN_PROCESSES:
            variances[arm][shape] = intervals.Variance(pooled_variance(usable, common), len(usable))
            continue
        own = [] if arm == duplicate else own_differences
        variances[arm][shape] = intervals.Variance(
            process_variance(own, common, prior.weight), prior.weight + len(found)
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
    means = [intervals.trimmed_mean(rounds) for rounds in usable]
    # The rounds may be autocorrelated.
    within = [
        intervals.variance_of_trimmed_mean(rounds) / intervals.effective_share(rounds)
        for rounds in usable
    ]
    if is_duplicate:
        return list(zip(means, within, strict=True))
    pairs = zip(itertools.pairwise(means), itertools.pairwise(within), strict=True)
    return [((two - one) / math.sqrt(2), statistics.fmean(both)) for (one, two), both in pairs]


def widen_by_variances(
    measurement: Measurement, variances: Mapping[Shape, intervals.Variance]
) -> Measurement:
    """Return the measurement with intervals that hold what a fresh process would show.

    One process serves all shapes, so the errors do not average out over them.
    """
    errors, cells = {}, measurement.cells
    for cell in cells:
        variance = variances[cell.shape]
        quantile = intervals.t_quantile(1 - intervals.TAIL, variance.degrees_of_freedom)
        errors[cell.shape] = quantile * math.sqrt(variance.value / cell.processes)
    overall = math.sqrt(
        intervals.weighted_mean((errors[cell.shape] ** 2, cell.weight) for cell in cells)
    )
    return msgspec.structs.replace(
        measurement,
        speedup=widen(measurement.speedup, overall),
        cells=tuple(
            msgspec.structs.replace(cell, speedup=widen(cell.speedup, errors[cell.shape]))
            for cell in cells
        ),
    )


def widen(speedup: Interval, floor: float) -> Interval:
    """Return the interval with a log difference of up to `floor` between processes.

    An interval that has the difference already stays as it is.
    """
    if speedup.process_error is not None:
        return speedup
    below, above = (math.hypot(width, floor) for width in speedup.log_widths)
    return Interval.around(speedup.value, below, above, floor / intervals.HALF_INTERVAL)


def variance_between(processes: Sequence[Sequence[float]]) -> float:
    """Return the variance of log differences between processes, never below 0.

    Each process has a log difference by round. The unbiased estimate is the variance of
    the processes' means less the share of it that the rounds within the processes cause.
    """
    within = statistics.fmean(intervals.variance_of_trimmed_mean(rounds) for rounds in processes)
    of_means = statistics.variance(intervals.trimmed_mean(rounds) for rounds in processes)
    return max(of_means - within, 0.0)


def pooled_variance(processes: Sequence[Sequence[float]], common: float) -> float:
    """Return the variance between processes of one arm, with `common`, that of all arms.

    The common variance counts as one further process, so the estimate has as many degrees of
    freedom as there are processes. docs/method.md has its coverage in simulations.
    """
    own = variance_between(processes)
    return (common + (len(processes) - 1) * own) / len(processes)


def process_variance(
    differences: Sequence[tuple[float, float]], prior: float, prior_weight: float
) -> float:
    """Return the variance of the log ratio of two equal processes.

    Each difference is between equal processes, with the variance that the rounds within them cause.
    Noise of the rounds makes some squared differences smaller than these variances and
    others larger, so only their sum is kept from falling below 0. A few differences may be small by
    chance, so a prior variance counts as `prior_weight` further differences.
    """
    excess = sum(difference**2 - within for difference, within in differences)
    return (prior_weight * prior + max(excess, 0.0)) / (prior_weight + len(differences))
