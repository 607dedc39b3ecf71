"""The planned times and lengths of requests."""

from __future__ import annotations

import itertools
import statistics

import pytest

from advisor.domain.question import RequestLengths
from advisor.probing.load_trace import BlockLimits, plan_block

SHORT = RequestLengths(input_tokens=8, output_tokens=4)
LONG = RequestLengths(input_tokens=64, output_tokens=32)


def test_arrivals_are_poisson_at_the_rate() -> None:
    planned = plan_block(0, 0, 20.0, BlockLimits(500.0), [SHORT, LONG])
    gaps = [b.at - a.at for a, b in itertools.pairwise(planned.requests)]
    assert statistics.fmean(gaps) == pytest.approx(1 / 20, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1 / 20, rel=0.05)
    longs = sum(request.lengths == LONG for request in planned.requests)
    assert longs == pytest.approx(len(planned.requests) / 2, rel=0.1)


def test_all_arms_get_the_same_trace_at_every_rate() -> None:
    slow, fast = (
        plan_block(7, 3, rate, BlockLimits(30.0), [SHORT, LONG]).requests for rate in (1.0, 4.0)
    )
    for one, other in zip(slow, fast, strict=False):
        assert one.at == pytest.approx(4 * other.at)
        assert one.lengths == other.lengths
    limits = BlockLimits(30.0)
    assert plan_block(7, 4, 1.0, limits, [SHORT]) != plan_block(7, 3, 1.0, limits, [SHORT])


def test_a_block_has_a_request_at_least() -> None:
    assert len(plan_block(0, 0, 0.001, BlockLimits(1.0), [SHORT]).requests) == 1


def test_a_block_at_a_low_rate_lasts_until_it_has_enough_requests() -> None:
    planned = plan_block(0, 0, 0.5, BlockLimits(10.0, least=25, most_seconds=600.0), [SHORT])
    assert len(planned.requests) == 25
    assert planned.requests[-1].at <= planned.seconds
    assert planned.seconds > 10.0
    short = plan_block(0, 0, 0.5, BlockLimits(10.0, least=25, most_seconds=20.0), [SHORT])
    assert short.requests == planned.requests[: len(short.requests)]
    assert short.requests[-1].at < short.seconds == 20.0


def test_a_block_at_a_high_rate_lasts_as_long_as_any() -> None:
    planned = plan_block(0, 0, 50.0, BlockLimits(10.0, least=25, most_seconds=20.0), [SHORT])
    assert planned.seconds == 10.0
    assert planned.requests[-1].at < 10.0
