"""Ratios of two runs' figures with intervals, and what an interval shows.

Both runs are independent, so their errors add as squares on the logarithmic scale. Arms that ran in
several processes are compared at the times at which other work did not disturb them. With fewer
processes the error is at least that of the noise floor: no two workers agree better than two equal
ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from advisor.decide.intervals import HALF_INTERVAL, MIN_PROCESSES, TAIL, Variance, t_quantile
from advisor.domain.measurement import Cell, Interval
from advisor.domain.results import RaceResult

#: Probability that any interval of a comparison misses its value.
FAMILY_ERROR = 0.05
#: Degrees of freedom that make Student's t distribution equal to the normal one.
MANY = 1000
#: Probability with which the smallest detectable slowdown is found.
POWER = 0.9

SpeedVerdict = Literal["slower", "faster", "same", "undecided"]
#: A ratio of two speed-ups, and the variance of its logarithm; None where it is not known.
ComparedRatio = tuple[float, Variance | None]


def undisturbed_ratio(before: Cell, after: Cell) -> ComparedRatio | None:
    """Return the ratio of the undisturbed speed-ups; None where a run has none.

    Both runs show how much one process varies, so their estimates are pooled.
    """
    first, second = before.undisturbed, after.undisturbed
    if first is None or second is None:
        return None
    runs = (first, second)
    freedom = sum(run.processes - 1 for run in runs)
    of_process = sum((run.processes - 1) * run.processes * run.log_error**2 for run in runs)
    variance = of_process / freedom * sum(1 / run.processes for run in runs)
    return second.value / first.value, Variance(variance, freedom)


def whole_ratio(
    before: Interval, after: Interval, first: Variance | None, second: Variance | None
) -> ComparedRatio:
    """Return the ratio of the speed-ups over all rounds, whose logarithms have these variances.

    The degrees of freedom follow Welch and Satterthwaite.
    """
    value = after.value / before.value
    if first is None or second is None:
        return value, None
    variance = first.value + second.value
    # Without any error, the degrees of freedom do not matter.
    squares = sum(each.value**2 / each.degrees_of_freedom for each in (first, second)) or 1.0
    return value, Variance(variance, max(variance**2 / squares, 1.0))


def variance_of_speedup(
    arm: str, cell: Cell, races: Sequence[RaceResult], differences: float
) -> Variance | None:
    """Return the variance of the arm's log speed-up over all rounds; None without an interval.

    The rounds of one or two processes do not show how much further processes differ. That is known
    from this number of differences between equal processes, the assumed ones included, which is
    small, so the error has no more degrees of freedom than they give.
    """
    low, high = cell.speedup.low, cell.speedup.high
    if low is None or high is None:
        return None
    half_width = math.log(high / low) / 2
    if cell.processes >= MIN_PROCESSES:
        return _variance(half_width, cell.processes - 1)
    result = next((each for each in races if each.shape == cell.shape), None)
    if result is None:
        return _variance(half_width, 1)
    of_arm = _variance(half_width, max(result.eliminated.get(arm, result.rounds) - 1, 1))
    of_duplicate = _variance(math.log1p(result.noise_floor or 0.0), max(result.rounds - 1, 1))
    largest = max(of_arm, of_duplicate)
    return largest._replace(degrees_of_freedom=min(largest.degrees_of_freedom, differences))


def _variance(half_width: float, degrees_of_freedom: float) -> Variance:
    quantile = t_quantile(1 - TAIL, degrees_of_freedom)
    return Variance((half_width / quantile) ** 2, degrees_of_freedom)


def speedup_ratio(
    compared: ComparedRatio, intervals: int, threshold: float
) -> tuple[Interval, float | None]:
    """Return the ratio with its interval, as one of this many, and the smallest slowdown found.

    All of them hold together with a probability of 95 % (Bonferroni). A slowdown is a share, and is
    found with the probability `POWER`; None where the ratio has no interval.
    """
    value, variance = compared
    if variance is None:
        return Interval(value=value, low=None, high=None), None
    error, freedom = math.sqrt(variance.value), variance.degrees_of_freedom
    critical = t_quantile(1 - FAMILY_ERROR / 2 / intervals, freedom)
    # Both the interval and the threshold have to be exceeded.
    shift = max(
        _detectable_shift(critical, freedom) * error,
        -math.log1p(-threshold) + t_quantile(POWER, freedom) * error,
    )
    return Interval.around(value, critical * error, critical * error), -math.expm1(-shift)


def _detectable_shift(critical: float, degrees_of_freedom: float) -> float:
    """Return the true mean, in standard errors, whose t statistic exceeds `critical`.

    It does so with the probability `POWER`. The standard error is estimated with these degrees of
    freedom, so the statistic has the noncentral t distribution.
    """
    from scipy.special import nctdtrinc

    return float(nctdtrinc(degrees_of_freedom, 1 - POWER, critical))


def goodput_change(before: Interval, after: Interval, intervals: int) -> Interval:
    """Return `after` over `before`, as one of this many intervals (Bonferroni)."""
    widening = t_quantile(1 - FAMILY_ERROR / 2 / intervals, MANY) / HALF_INTERVAL
    return after.over(before, widening=widening)


def classify_speed(speed: Interval, threshold: float) -> SpeedVerdict:
    """Return what a ratio shows; a missing bound shows nothing.

    A ratio is slower or faster if its value is beyond the threshold and its interval excludes 1. It
    is the same if its whole interval is within the threshold.
    """
    if speed.low is None or speed.high is None:
        return "undecided"
    if speed.value < 1 - threshold and speed.high < 1:
        return "slower"
    if speed.value > 1 + threshold and speed.low > 1:
        return "faster"
    is_within = speed.low >= 1 - threshold and speed.high <= 1 + threshold
    return "same" if is_within else "undecided"
