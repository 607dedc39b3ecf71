"""Compare the goodputs of servers in two runs. Pure.

A server is judged by its own goodput, not relative to the baseline's: a server that cannot lead has
a wide interval, and the requests per second are what users rely on. A slower machine shows as a
change of every server.
"""

from __future__ import annotations

import math

import msgspec

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.report.comparisons.speed_ratios import FAMILY_ERROR, SpeedVerdict, classify_speed
from advisor.statistics.intervals import HALF_INTERVAL, t_quantile

#: Degrees of freedom with which Student's t distribution is the normal one.
MANY = 1000


class GoodputChange(msgspec.Struct, frozen=True, kw_only=True):
    """The goodput of one arm's server: the second run over the first."""

    arm: str
    before: Interval
    after: Interval
    #: One of the intervals of all arms, which hold together with a probability of 95 %.
    ratio: Interval
    verdict: SpeedVerdict


def compare_goodputs(
    before: Answer, after: Answer, threshold: float, *, is_unfit: bool
) -> tuple[GoodputChange, ...]:
    """Return the change of every arm with a goodput in both runs; empty for other tasks."""
    first, second = _goodputs(before), _goodputs(after)
    common = [arm for arm in first if arm in second]
    changes = []
    for arm in common:
        ratio = _ratio(first[arm], second[arm], len(common))
        verdict: SpeedVerdict = "undecided" if is_unfit else classify_speed(ratio, threshold)
        changes.append(
            GoodputChange(
                arm=arm, before=first[arm], after=second[arm], ratio=ratio, verdict=verdict
            )
        )
    return tuple(changes)


def _goodputs(answer: Answer) -> dict[str, Interval]:
    arms = answer.results.serving.arms if answer.results.serving is not None else ()
    return {arm.arm: arm.goodput for arm in arms if arm.goodput is not None}


def _ratio(before: Interval, after: Interval, intervals: int) -> Interval:
    """Return `after` over `before`, as one of this many intervals (Bonferroni)."""
    value = after.value / before.value
    if None in (before.low, before.high, after.low, after.high):
        return Interval(value=value, low=None, high=None)
    wider = t_quantile(1 - FAMILY_ERROR / 2 / intervals, MANY) / HALF_INTERVAL
    (before_low, before_high), (after_low, after_high) = _log_widths(before), _log_widths(after)
    return Interval(
        value=value,
        low=value * math.exp(-wider * math.hypot(after_low, before_high)),
        high=value * math.exp(wider * math.hypot(after_high, before_low)),
    )


def _log_widths(interval: Interval) -> tuple[float, float]:
    """Return how far both bounds are from the value, as logarithms."""
    low, high = interval.low or interval.value, interval.high or interval.value
    return math.log(interval.value / low), math.log(high / interval.value)
