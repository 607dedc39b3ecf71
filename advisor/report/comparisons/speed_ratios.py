"""Ratios of two runs' figures with intervals, and what an interval shows.

Both runs are independent, so their errors add as squares on the logarithmic scale. The error of a
run's speed-up is at least that of its noise floor: no two workers agree better than two equal ones.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from advisor.domain.catalogue import NoisePrior
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.report.documents.document import RaceEntry
from advisor.statistics.intervals import t_quantile
from advisor.statistics.replication import MIN_PROCESSES

#: Probability that any interval of a comparison misses its value.
FAMILY_ERROR = 0.05
#: Each bound of an interval in a run's document fails with this probability.
TAIL = 0.025

SpeedVerdict = Literal["slower", "faster", "same", "undecided"]


class SpeedupError(NamedTuple):
    """Standard error of a log speed-up, and its degrees of freedom."""

    standard_error: float
    degrees_of_freedom: int


def speedup_error(
    arm: str, cell: Cell, race: RaceEntry | None, differences: int
) -> SpeedupError | None:
    """Return the error of the arm's speed-up at a batch size; None without an interval.

    The rounds of one or two processes do not show how much further processes differ. That is known
    from this number of differences between equal processes, which is small, so the error has no
    more degrees of freedom than they give.
    """
    low, high = cell.speedup.low, cell.speedup.high
    if low is None or high is None:
        return None
    half_width = math.log(high / low) / 2
    if cell.processes >= MIN_PROCESSES:
        return _standard_error(half_width, cell.processes - 1)
    result = next(
        (
            each
            for each in (race.by_batch_size if race else ())
            if each.batch_size == cell.batch_size
        ),
        None,
    )
    if result is None:
        return _standard_error(half_width, 1)
    arm_rounds = result.eliminated.get(arm, result.rounds)
    of_arm = _standard_error(half_width, max(arm_rounds - 1, 1))
    of_duplicate = _standard_error(math.log1p(result.noise_floor or 0.0), max(result.rounds - 1, 1))
    largest = max(of_arm, of_duplicate)
    most = int(NoisePrior().weight) + differences
    return largest._replace(degrees_of_freedom=min(largest.degrees_of_freedom, most))


def _standard_error(half_width: float, degrees_of_freedom: int) -> SpeedupError:
    quantile = t_quantile(1 - TAIL, degrees_of_freedom)
    return SpeedupError(half_width / quantile, degrees_of_freedom)


def speedup_ratio(
    before: Interval,
    after: Interval,
    errors: tuple[SpeedupError | None, SpeedupError | None],
    intervals: int,
) -> Interval:
    """Return the speed-up after over the one before, as one of this many intervals.

    All of them hold together with a probability of 95 % (Bonferroni). The degrees of freedom follow
    Welch and Satterthwaite.
    """
    value = after.value / before.value
    first, second = errors
    if first is None or second is None:
        return Interval(value=value, low=None, high=None)
    error = math.hypot(first.standard_error, second.standard_error)
    if error == 0:
        return Interval(value=value, low=value, high=value)
    degrees_of_freedom = error**4 / sum(
        each.standard_error**4 / each.degrees_of_freedom for each in (first, second)
    )
    quantile = t_quantile(1 - FAMILY_ERROR / 2 / intervals, max(int(degrees_of_freedom), 1))
    return Interval(
        value=value,
        low=value * math.exp(-quantile * error),
        high=value * math.exp(quantile * error),
    )


def speed_ratio(before: Cell, after: Cell, noise: float) -> Interval:
    """Return the speed of `after` over that of `before`.

    The half widths of both intervals and the noise floor `noise` are independent, so they are added
    as squares on the logarithmic scale.
    """
    value = before.seconds.median / after.seconds.median
    before_widths, after_widths = _log_half_widths(before), _log_half_widths(after)
    if before_widths is None or after_widths is None:
        return Interval(value=value, low=None, high=None)
    (before_low, before_high), (after_low, after_high) = before_widths, after_widths
    log_noise = math.log1p(noise)
    return Interval(
        value=value,
        low=value * math.exp(-math.hypot(before_low, after_high, log_noise)),
        high=value * math.exp(math.hypot(before_high, after_low, log_noise)),
    )


def _log_half_widths(cell: Cell) -> tuple[float, float] | None:
    """Return the distances of the median from both ends of its interval, as logarithms."""
    seconds = cell.seconds
    if seconds.low is None or seconds.high is None:
        return None
    return math.log(seconds.median / seconds.low), math.log(seconds.high / seconds.median)


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


def may_be_slower(speed: Interval, threshold: float) -> bool:
    """Return whether a ratio can be below the threshold."""
    return speed.low is None or speed.low < 1 - threshold
