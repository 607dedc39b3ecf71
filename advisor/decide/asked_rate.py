"""Whether a server sustains the asked rate, and how many of it are needed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from advisor.domain.interval import Interval
from advisor.domain.serving import AskedRate, RateLevel

#: Error of a quotient by rounding alone.
ROUNDING = 1e-9
#: A level shows the latency of each server where its rate is between these factors of that of a
#: server: a higher rate has a higher latency.
LEAST_RATE, MOST_RATE = 0.95, 1.3


def servers_for(rate: float, goodput: float) -> int:
    """Return how many equal servers share a rate so that none exceeds its goodput."""
    return max(1, math.ceil(rate / goodput - ROUNDING))


def compare_with_asked_rate(
    goodput: Interval | None,
    levels: Sequence[RateLevel],
    rate: float | None,
    price_per_hour: float | None,
) -> AskedRate | None:
    """Return the comparison; None without a goodput with both bounds, or without a rate."""
    if rate is None or goodput is None or goodput.low is None or goodput.high is None:
        return None
    servers = servers_for(rate, goodput.value)
    return AskedRate(
        rate=rate,
        verdict=_verdict(rate, goodput.low, goodput.high),
        servers=servers,
        fewest_servers=servers_for(rate, goodput.high),
        most_servers=servers_for(rate, goodput.low),
        level=_nearest_level(levels, rate / servers),
        price_per_hour=servers * price_per_hour if price_per_hour else None,
    )


def _verdict(rate: float, low: float, high: float) -> Literal["met", "not-met", "open"]:
    if rate <= low:
        return "met"
    return "not-met" if rate > high else "open"


def _nearest_level(levels: Sequence[RateLevel], rate: float) -> RateLevel | None:
    near = [level for level in levels if LEAST_RATE <= level.rate / rate <= MOST_RATE]
    return min(near, key=lambda level: abs(math.log(level.rate / rate)), default=None)
