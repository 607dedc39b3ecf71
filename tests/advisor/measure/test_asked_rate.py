from __future__ import annotations

import builders
import pytest

from advisor.domain.interval import Interval
from advisor.measure.asked_rate import compare_with_asked_rate, servers_for

GOODPUT = Interval(value=10.0, low=8.0, high=12.0)


@pytest.mark.parametrize(
    ("rate", "verdict", "servers"),
    [
        (8.0, "met", (1, 1, 1)),
        (10.0, "open", (1, 1, 2)),
        (11.0, "open", (2, 1, 2)),
        (12.1, "not-met", (2, 2, 2)),
        (40.0, "not-met", (4, 4, 5)),
    ],
)
def test_servers_share_the_rate_so_that_none_exceeds_its_goodput(
    rate: float, verdict: str, servers: tuple[int, int, int]
) -> None:
    found = compare_with_asked_rate(GOODPUT, [], rate, None)
    assert found is not None
    assert found.verdict == verdict
    assert (found.servers, found.fewest_servers, found.most_servers) == servers
    assert found.level is None


def test_the_latency_is_that_at_the_rate_of_each_server() -> None:
    levels = [builders.rate_level(5.0), builders.rate_level(9.9), builders.rate_level(11.0)]
    found = compare_with_asked_rate(GOODPUT, levels, 40.0, price_per_hour=2.5)
    assert found is not None
    assert found.level == levels[1]
    assert found.price_per_hour == 10.0


def test_the_latency_at_a_rate_a_little_above_counts_and_one_below_does_not() -> None:
    above = compare_with_asked_rate(
        GOODPUT, [builders.rate_level(9.0), builders.rate_level(12.0)], 40.0, None
    )
    assert above is not None
    assert above.level == builders.rate_level(12.0)
    below = compare_with_asked_rate(
        GOODPUT, [builders.rate_level(9.0), builders.rate_level(14.0)], 40.0, None
    )
    assert below is not None
    assert below.level is None


@pytest.mark.parametrize(
    ("goodput", "rate"),
    [(None, 5.0), (GOODPUT, None), (Interval(value=10.0, low=None, high=None), 5.0)],
)
def test_without_a_goodput_or_a_rate_nothing_is_compared(
    goodput: Interval | None, rate: float | None
) -> None:
    assert compare_with_asked_rate(goodput, [], rate, None) is None


def test_a_multiple_of_the_goodput_needs_no_further_server() -> None:
    assert servers_for(0.3, 0.1) == 3
    assert servers_for(0.01, 5.0) == 1
