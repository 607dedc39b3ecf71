from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.statistics.goodput import (
    GoodputSearch,
    LoadBlock,
    compare_processes,
    estimate_goodput,
)

SERVICE_SECONDS = 0.05
SHARE = 0.95
#: Requests at the beginning of a block that do not count.
LEAD = 0.2
LADDER = (0.4, 0.6, 0.8, 1.0)


def waiting_times(arrivals: Any, service_seconds: float) -> Any:
    """Return how long each request waits in a queue with a fixed service time (Lindley)."""
    steps = service_seconds - np.diff(arrivals)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return total - np.minimum.accumulate(total)


def measure_queue(
    stream: np.random.RandomState, rate: float, seconds: float, limit: float
) -> LoadBlock:
    """Return one block of an M/D/1 queue in virtual time; latency is wait plus service."""
    arrivals = np.cumsum(stream.exponential(1 / rate, size=int(rate * seconds)))
    latency = (waiting_times(arrivals, SERVICE_SECONDS) + SERVICE_SECONDS)[
        int(LEAD * len(arrivals)) :
    ]
    return LoadBlock(rate, int((latency <= limit).sum()), len(latency))


def true_goodput(limit: float) -> float:
    """Return the rate at which `SHARE` of the requests of an endless M/D/1 queue meet the limit.

    The waiting time of M/D/1 has no short formula, so a queue of a million requests stands for it.
    """
    gaps = np.random.RandomState(9).exponential(1.0, size=1_000_000)
    low, high = 0.1 / SERVICE_SECONDS, 1 / SERVICE_SECONDS
    for _ in range(20):
        rate = (low + high) / 2
        waits = waiting_times(np.cumsum(gaps / rate), SERVICE_SECONDS)
        met = (waits + SERVICE_SECONDS <= limit).mean() >= SHARE
        low, high = (rate, high) if met else (low, rate)
    return low


def search_queue(
    seed: int, limit: float, start_rate: float, seconds: float = 400
) -> list[LoadBlock]:
    """Search the goodput of the queue, then measure blocks near it, as a run does."""
    stream = np.random.RandomState(seed)
    search = GoodputSearch(start_rate, SHARE, most_blocks=10, ladder=LADDER)
    while not search.is_finished():
        for rate in search.next_rates():
            search.record(measure_queue(stream, rate, seconds, limit))
    found = estimate_goodput(search.blocks, SHARE, seed)
    assert found is not None
    repeated = [
        measure_queue(stream, share * found.value, seconds, limit) for share in (0.8, 0.95, 1.1)
    ]
    return [*search.blocks, *repeated]


@pytest.mark.parametrize("limit", [0.15, 0.25, 0.5])
@pytest.mark.parametrize("start_rate", [1.0, 15.0, 90.0])
def test_the_goodput_of_a_known_queue_is_found_within_five_percent(
    limit: float, start_rate: float
) -> None:
    found = estimate_goodput(search_queue(3, limit, start_rate), SHARE, 0)
    assert found is not None
    assert found.value == pytest.approx(true_goodput(limit), rel=0.05)
    assert found.low <= found.value <= found.high


def test_most_intervals_hold_the_goodput() -> None:
    truth = true_goodput(0.15)
    found = [
        estimate_goodput(search_queue(seed, 0.15, 10.0, seconds=60), SHARE, 0) for seed in range(30)
    ]
    held = sum(each is not None and each.low <= truth <= each.high for each in found)
    assert held >= 24


def test_a_server_that_never_meets_the_limits_has_no_goodput() -> None:
    search = GoodputSearch(8.0, SHARE, most_blocks=10)
    while not search.is_finished():
        for rate in search.next_rates():
            search.record(LoadBlock(rate, 0, 50))
    assert estimate_goodput(search.blocks, SHARE, 0) is None
    assert search.blocks[-1].rate < 1


def test_the_search_ends_where_every_rate_meets_the_limits() -> None:
    search = GoodputSearch(1.0, SHARE, most_blocks=4)
    while not search.is_finished():
        for rate in search.next_rates():
            search.record(LoadBlock(rate, 50, 50))
    assert [block.rate for block in search.blocks] == [1, 1.5, 2.5, 3.75]
    found = estimate_goodput(search.blocks, SHARE, 0)
    assert found is not None
    assert found.value >= 3.75


def test_the_same_blocks_give_the_same_interval() -> None:
    blocks = [LoadBlock(4.0, 60, 60), LoadBlock(6.0, 55, 60), LoadBlock(8.0, 20, 60)]
    assert estimate_goodput(blocks, SHARE, 5) == estimate_goodput(blocks, SHARE, 5)


def test_the_goodput_of_one_process_is_found_with_the_slope_of_both() -> None:
    slow = [LoadBlock(4.0, 60, 60), LoadBlock(5.0, 57, 60), LoadBlock(6.0, 30, 60)]
    fast = [LoadBlock(8.0, 60, 60), LoadBlock(10.0, 57, 60), LoadBlock(12.0, 30, 60)]
    difference, variance = compare_processes(slow, fast, SHARE, 10.0)
    assert difference == pytest.approx(np.log(2), abs=0.05)
    assert 0 < variance < 0.05
    assert compare_processes(slow, slow, SHARE, 10.0)[0] == 0


@pytest.mark.parametrize(("rate", "share"), [(0.0, 0.95), (1.0, 1.0), (1.0, 0.0)])
def test_a_search_without_a_rate_or_a_share_is_refused(rate: float, share: float) -> None:
    with pytest.raises(ValueError, match="rate must be positive"):
        GoodputSearch(rate, share, most_blocks=3)
