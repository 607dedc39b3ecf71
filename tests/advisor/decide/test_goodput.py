"""The goodput of servers whose true goodput is known."""

from __future__ import annotations

import statistics

import builders
import numpy as np
import pytest
import simulated_queue
from simulated_queue import SHARE, Load, measure_server, true_goodput

from advisor.decide.goodput import GoodputSearch, compare_processes, estimate_goodput
from advisor.decide.load_blocks import LoadBlock, count_groups, group_size


@pytest.mark.slow
@pytest.mark.parametrize(("requests", "most_error"), [(50, 0.1), (500, 0.05)])
def test_the_median_goodput_of_a_known_queue_is_near_the_truth(
    requests: int, most_error: float
) -> None:
    """In blocks of 50 requests the queue has no time to grow."""
    load, servers = Load(5, requests), 20
    truth = true_goodput(load.limit)
    known = [each for seed in range(servers) if (each := measure_server(seed, load)) is not None]
    assert len(known) == servers
    assert statistics.median(each.value for each in known) == pytest.approx(truth, rel=most_error)
    assert sum(each.low <= truth <= each.high for each in known) >= 0.85 * servers


def test_slowed_blocks_do_not_decide_the_goodput() -> None:
    load = Load(2, 500, slowed_share=0.15)
    truth = true_goodput(load.limit)
    found = [measure_server(seed, load) for seed in range(15)]
    ratios = [each.value / truth for each in found if each is not None]
    assert len(ratios) == len(found)
    assert statistics.median(ratios) == pytest.approx(1, rel=0.1)


def test_one_failed_block_below_rates_that_meet_the_limits_moves_the_goodput_little() -> None:
    met = [LoadBlock(rate, 300, 300, 0) for rate in (20.0, 30.0, 40.0, 50.0)]
    failed = [LoadBlock(60.0, 150, 300, 4)]
    slowed = LoadBlock(35.0, 110, 300, 2)
    alone = estimate_goodput([*met, *failed], SHARE, 0)
    found = estimate_goodput([*met, *failed, slowed], SHARE, 0)
    assert alone is not None
    assert found is not None
    assert found.value == pytest.approx(alone.value, rel=0.1)
    assert found.low <= alone.low


@pytest.mark.parametrize("start_rate", [0.2, 0.75, 4.5])
def test_long_blocks_find_the_goodput_from_any_first_rate(start_rate: float) -> None:
    load = Load(5, 8000)
    found = builders.known(measure_server(3, load, start_rate))
    assert found.value == pytest.approx(true_goodput(load.limit), rel=0.05)
    assert found.low <= found.value <= found.high


def test_the_formula_of_the_known_queue_agrees_with_a_long_simulation() -> None:
    rate = true_goodput(5)
    arrivals = np.cumsum(np.random.RandomState(9).exponential(1 / rate, size=1_000_000))
    times = simulated_queue.latencies(arrivals, 0.0)
    assert (times <= 5).mean() == pytest.approx(SHARE, abs=0.003)


def test_larger_groups_of_misses_make_wider_intervals() -> None:
    def width(groups: int | None) -> float:
        blocks = [
            LoadBlock(4.0, 100, 100, groups and 0),
            LoadBlock(5.0, 90, 100, groups),
            LoadBlock(6.0, 75, 100, groups),
        ]
        found = builders.known(estimate_goodput(blocks, SHARE, 0))
        return found.high / found.low

    assert width(1) > 1.1 * width(None)


def test_a_server_that_never_meets_the_limits_has_no_goodput() -> None:
    search = GoodputSearch(8.0, SHARE, most_blocks=10)
    while not search.is_finished():
        for rate in search.next_rates():
            search.record(LoadBlock(rate, 0, 50))
    assert estimate_goodput(search.blocks, SHARE, 0) is None
    assert min(block.rate for block in search.blocks) < 1


@pytest.mark.parametrize(("coarse", "descents"), [(False, 4), (True, 2)])
def test_rates_below_a_ladder_that_failed_are_tried(coarse: bool, descents: int) -> None:
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.4, 0.6, 0.8, 1.0))
    for rate in search.next_rates():
        search.record(LoadBlock(rate, 10, 50))
    assert not search.is_finished(coarse=coarse)
    while not search.is_finished(coarse=coarse):
        for rate in search.next_rates(coarse=coarse):
            search.record(LoadBlock(rate, 10, 50))
    assert sum(block.rate < 4 for block in search.blocks) == descents
    assert search.blocks[-1].rate < 4 / 4


def test_a_rate_that_failed_below_one_that_met_the_limits_is_measured_again() -> None:
    # The bracket from 5 to 6 is narrow enough, so only the contradiction keeps the search going.
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.5, 0.6, 0.8))
    for rate, met in zip(search.next_rates(), (50, 20, 50), strict=True):
        search.record(LoadBlock(rate, met, 50))
    assert search.is_finished(coarse=True)
    assert not search.is_finished()
    assert search.next_rates(coarse=True) != (6.0,)
    assert search.next_rates() == (6.0,)
    search.record(LoadBlock(6.0, 50, 50))
    # The rate has not failed: higher ones are tried.
    assert min(search.next_rates()) > 8


def test_a_rate_that_failed_twice_has_failed_although_a_higher_one_met_the_limits() -> None:
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.4, 0.6, 0.8))
    for rate, met in zip((*search.next_rates(), 6.0), (50, 20, 50, 10), strict=True):
        search.record(LoadBlock(rate, met, 50))
    assert all(4 < rate < 6 for rate in search.next_rates())


def test_the_search_ends_where_every_rate_meets_the_limits() -> None:
    search = GoodputSearch(1.0, SHARE, most_blocks=4)
    while not search.is_finished():
        for rate in search.next_rates():
            search.record(LoadBlock(rate, 50, 50))
    assert [block.rate for block in search.blocks] == [1, 1.5, 2.5, 3.75]
    found = builders.known(estimate_goodput(search.blocks, SHARE, 0))
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


def test_misses_with_few_others_between_them_are_one_group() -> None:
    assert count_groups([]) == 0
    assert count_groups([False] * 3) == 0
    assert count_groups([True, *[False] * 5, True]) == 1
    assert count_groups([True, *[False] * 6, True]) == 2
    assert group_size([LoadBlock(4.0, 50, 60, 2), LoadBlock(6.0, 10, 60, 1)]) == 5
    assert group_size([LoadBlock(4.0, 60, 60, 0)]) == 1
