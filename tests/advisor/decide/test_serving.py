"""Servers under load: the goodput, its search, and the comparison of servers."""

from __future__ import annotations

import statistics

import builders
import built_measurements
import numpy as np
import pytest
import simulated_queue
from builders import replace
from built_measurements import rate_level
from simulated_queue import SHARE, Load, measure_server, true_goodput

from advisor.decide import serving
from advisor.decide.goodput import GoodputSearch, compare_processes, estimate_goodput
from advisor.decide.load_blocks import LoadCounts, count_groups, group_size, levels_of, meets_limits
from advisor.domain.measurement import Interval
from advisor.domain.plan import Plan
from advisor.domain.run_events import EnergyMeasured, LoadMeasured
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import ServedRequest
from probes.events import ClosedLoop
from probes.outcome import Failure, Outcome
from probes.shape import Shape

LOAD = built_measurements.load()
PLAN = Plan(arms=(builders.arm("slow"), builders.arm("fast")), excluded=())


def request(
    ttft: float | None = 0.1, itl: float | None = 0.01, failure: str | None = None
) -> ServedRequest:
    return ServedRequest(
        at=1.0,
        late=0.0,
        ttft=ttft,
        seconds=ttft,
        itl=itl,
        output_tokens=0 if failure else 4,
        failure=failure,
    )


def block(rate: float, met: int, missed: int, *, discarded: bool = False) -> LoadMeasured:
    return LoadMeasured(
        arm="slow",
        process=0,
        rate=rate,
        seconds=10.0,
        requests=(*(request() for _ in range(met)), *(request(ttft=2.0) for _ in range(missed))),
        discarded=discarded,
    )


def state_of(*processes: tuple[LoadMeasured, ...]) -> RunState:
    made = tuple(
        ProcessState(repeat=number, load_blocks=blocks) for number, blocks in enumerate(processes)
    )
    return RunState(plan=PLAN, processes={"slow": made})


@pytest.mark.parametrize(
    ("served", "expected"),
    [
        (request(), True),
        (request(ttft=0.5, itl=0.05), True),
        (request(itl=None), True),
        (request(ttft=0.51), False),
        (request(itl=0.051), False),
        (request(ttft=None, itl=None, failure="refused"), False),
    ],
)
def test_a_request_has_to_meet_both_limits(served: ServedRequest, expected: bool) -> None:
    assert meets_limits(served, LOAD) is expected


def test_discarded_blocks_do_not_change_the_goodput() -> None:
    blocks = (block(2.0, 40, 0), block(4.0, 38, 2), block(8.0, 1, 40))
    disturbed = (*blocks, block(1.0, 0, 50, discarded=True))
    assert serving.goodput_of_arm(state_of(disturbed), "slow", LOAD, 0) == serving.goodput_of_arm(
        state_of(blocks), "slow", LOAD, 0
    )


def test_two_processes_that_differ_widen_the_intervals() -> None:
    def deviation(shift: float) -> float:
        first = (block(2.0, 60, 0), block(4.0, 57, 3), block(6.0, 20, 40))
        second = (block(2.0 * shift, 60, 0), block(4.0 * shift, 57, 3), block(6.0 * shift, 20, 40))
        state = state_of(first, second)
        found = builders.known(serving.goodput_of_arm(state, "slow", LOAD, 0))
        return serving.estimate_deviation(state, {"slow": found}, LOAD, builders.NOISE)

    assert deviation(1.0) == pytest.approx(builders.NOISE.process_deviation, rel=0.5)
    assert deviation(2.0) > 0.1


def test_a_queue_after_the_block_counts_as_time_of_serving() -> None:
    """Requests that wait for each other: 1 s of service each, all sent within 10 s."""
    sent = [number / 4 for number in range(40)]
    requests = tuple(
        replace(request(number + 0.1 - at), at=at, seconds=number + 1 - at)
        for number, at in enumerate(sent)
    )
    overloaded = replace(block(4.0, 0, 0), requests=requests)
    (level,) = levels_of([overloaded], LOAD, None)
    assert level.tokens_per_second == pytest.approx(4.0, rel=0.05)


def test_the_latency_is_given_by_rate_and_equal_rates_are_pooled() -> None:
    question = builders.question(load=LOAD, price_per_hour=3.6)
    blocks = (block(2.0, 40, 0), block(4.0, 38, 2), block(4.0, 37, 3), block(8.0, 1, 40))
    refused = request(ttft=None, itl=None, failure="refused")
    state = state_of((*blocks, replace(block(9.0, 0, 0), requests=(refused,))))
    found = serving.goodput_of_arm(state, "slow", LOAD, 0)
    served = serving.summarise_server(state, "slow", found, question, 0.01)
    counts = [(level.rate, level.requests) for level in served.levels]
    assert counts == [(2.0, 40), (4.0, 80), (8.0, 41), (9.0, 1)]
    goodput = builders.known(served.goodput).value
    assert [level.share * goodput for level in served.levels] == pytest.approx([2, 4, 8, 9])
    assert served.levels[0].ttft_seconds == (0.1, 0.1, 0.1)
    assert served.levels[1].tokens_per_second == pytest.approx(80 * 4 / 20)
    assert served.levels[3].ttft_seconds is None
    assert (served.requests, served.failed, served.blocks) == (162, 1, 5)
    assert served.tokens_per_second == pytest.approx(4 * goodput)
    assert served.cost_per_million_tokens == pytest.approx(
        1e3 / builders.known(served.tokens_per_second)
    )


@pytest.mark.parametrize(
    ("joules", "per_token"),
    [((90.0, 640.0), 640 / (32 * 4)), ((90.0, None), 90 / (9 * 4)), ((None, None), None)],
)
def test_the_energy_of_a_token_is_that_of_the_most_requests_at_once(
    joules: tuple[float | None, float | None], per_token: float | None
) -> None:
    loops = [
        ClosedLoop(concurrency=size, requests=requests, seconds=1.0)
        for size, requests in ((1, 9), (4, 32))
    ]
    energy = [
        EnergyMeasured(arm="slow", process=0, shape=Shape(size), joules=used)
        for size, used in zip((1, 4), joules, strict=True)
    ]
    state = state_of((block(2.0, 40, 0),))
    (process,) = state.processes["slow"]
    loaded = replace(process, closed_loops=tuple(loops), energy=tuple(energy))
    state = replace(state, processes={"slow": (loaded,)})
    served = serving.summarise_server(state, "slow", None, builders.question(load=LOAD), 0.01)
    assert served.joules_per_token == (None if per_token is None else pytest.approx(per_token))


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
    found = builders.known(serving.compare_with_asked_rate(GOODPUT, [], rate, None))
    assert found.verdict == verdict
    assert (found.servers, found.fewest_servers, found.most_servers) == servers
    assert found.level is None


@pytest.mark.parametrize(
    ("rates", "nearest"),
    [((5.0, 9.9, 11.0), 9.9), ((9.0, 12.0), 12.0), ((9.0, 14.0), None)],
    ids=["nearest", "a little above", "too far"],
)
def test_the_latency_is_that_at_the_rate_of_each_server(
    rates: tuple[float, ...], nearest: float | None
) -> None:
    found = builders.known(
        serving.compare_with_asked_rate(
            GOODPUT, [*map(rate_level, rates)], 40.0, price_per_hour=2.5
        )
    )
    assert found.level == (rate_level(nearest) if nearest else None)
    assert found.price_per_hour == 10.0


@pytest.mark.parametrize(
    ("goodput", "rate"),
    [(None, 5.0), (GOODPUT, None), (Interval(value=10.0, low=None, high=None), 5.0)],
)
def test_without_a_goodput_or_a_rate_nothing_is_compared(
    goodput: Interval | None, rate: float | None
) -> None:
    assert serving.compare_with_asked_rate(goodput, [], rate, None) is None


def test_a_multiple_of_the_goodput_needs_no_further_server() -> None:
    assert serving.servers_for(0.3, 0.1) == 3
    assert serving.servers_for(0.01, 5.0) == 1


RULES = builders.shipped_catalogue().serving
GAIN = 1.3


def loop(rate: float) -> ClosedLoop:
    return ClosedLoop(concurrency=1, requests=round(rate * 10), seconds=10.0)


def process(
    *, loops: tuple[float, ...] = (), blocks: tuple[LoadMeasured, ...] = ()
) -> ProcessState:
    return ProcessState(closed_loops=tuple(map(loop, loops)), load_blocks=blocks)


def ladder(factor: float) -> tuple[LoadMeasured, ...]:
    """Return blocks of a server whose goodput is about ten times the factor."""
    shares = ((4.0, 80, 0), (6.0, 80, 0), (8.0, 80, 0), (10.0, 98, 2), (12.0, 20, 100))
    return tuple(block(rate * factor, met, missed) for rate, met, missed in shares)


FAST = process(blocks=ladder(1.0))


def state_of_two(slow: ProcessState, fast: ProcessState = FAST) -> RunState:
    return RunState(plan=PLAN, processes={"slow": (slow,), "fast": (fast,)})


@pytest.mark.parametrize(
    ("rates", "saturated"),
    [((), False), ((2.0,), False), ((2.0, 5.0), False), ((2.0, 2.4), True), ((2, 5, 4), True)],
)
def test_a_server_is_saturated_when_more_requests_at_once_are_no_faster(
    rates: tuple[float, ...], saturated: bool
) -> None:
    assert serving.is_saturated([loop(rate) for rate in rates], GAIN) is saturated


def test_the_goodput_is_below_capacity_and_rates_that_half_of_the_requests_miss() -> None:
    assert serving.goodput_bound([process(loops=(2.0, 2.4))], LOAD, GAIN) == 2.4
    assert serving.goodput_bound([process(loops=(2.0, 5.0))], LOAD, GAIN) is None
    missed = process(blocks=(block(1.0, 30, 2), block(1.5, 20, 12), block(2.0, 5, 30)))
    assert serving.goodput_bound([missed], LOAD, GAIN) == 2.0


def test_an_arm_that_cannot_reach_half_of_anothers_goodput_or_is_below_cannot_lead() -> None:
    for slow, expected in (
        (process(loops=(1.0, 1.1)), False),
        (process(loops=(7.0, 7.1)), True),
        (process(loops=(1.0, 4.0)), True),
        (process(blocks=(block(1.0, 5, 30),)), False),
        (process(blocks=ladder(0.4)), False),
        (process(blocks=ladder(0.9)), True),
    ):
        assert serving.may_lead(state_of_two(slow), "slow", LOAD, RULES, 0) is expected
    assert serving.may_lead(state_of_two(process(loops=(1.0, 1.1))), "fast", LOAD, RULES, 0)


def test_a_failed_arm_excludes_no_other_one() -> None:
    failed = replace(FAST, outcome=Outcome(Failure("incorrect", phase="sustain", reason="wrong")))
    state = state_of_two(process(loops=(1.0, 1.1)), failed)
    assert serving.may_lead(state, "slow", LOAD, RULES, 0)


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
    met = [LoadCounts(rate, 300, 300, 0) for rate in (20.0, 30.0, 40.0, 50.0)]
    failed = [LoadCounts(60.0, 150, 300, 4)]
    slowed = LoadCounts(35.0, 110, 300, 2)
    alone = builders.known(estimate_goodput([*met, *failed], SHARE, 0))
    found = builders.known(estimate_goodput([*met, *failed, slowed], SHARE, 0))
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
    def width(*groups: int) -> float:
        misses = zip((4.0, 5.0, 6.0), (100, 90, 75), groups, strict=True)
        blocks = [LoadCounts(rate, met, 100, count) for rate, met, count in misses]
        found = builders.known(estimate_goodput(blocks, SHARE, 0))
        return found.high / found.low

    assert width(0, 1, 1) > 1.1 * width(0, 10, 25)


def searched(search: GoodputSearch, met: int, *, coarse: bool = False) -> GoodputSearch:
    """Return the search at its end, if `met` of 50 requests meet the limits at every rate."""
    while not search.is_finished(coarse=coarse):
        for rate in search.next_rates(coarse=coarse):
            search.blocks.append(LoadCounts(rate, met, 50, 50 - met))
    return search


def test_a_server_that_never_meets_the_limits_has_no_goodput() -> None:
    search = searched(GoodputSearch(8.0, SHARE, most_blocks=10), met=0)
    assert estimate_goodput(search.blocks, SHARE, 0) is None
    assert min(block.rate for block in search.blocks) < 1


@pytest.mark.parametrize(("coarse", "descents"), [(False, 4), (True, 2)])
def test_rates_below_a_ladder_that_failed_are_tried(coarse: bool, descents: int) -> None:
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.4, 0.6, 0.8, 1.0))
    searched(search, met=10, coarse=coarse)
    assert sum(block.rate < 4 for block in search.blocks) == descents
    assert search.blocks[-1].rate < 4 / 4


def test_a_rate_that_failed_below_one_that_met_the_limits_is_measured_again() -> None:
    # The bracket from 5 to 6 is narrow enough, so only the contradiction keeps the search going.
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.5, 0.6, 0.8))
    for rate, met in zip(search.next_rates(), (50, 20, 50), strict=True):
        search.blocks.append(LoadCounts(rate, met, 50, 50 - met))
    assert search.is_finished(coarse=True)
    assert not search.is_finished()
    assert search.next_rates(coarse=True) != (6.0,)
    assert search.next_rates() == (6.0,)
    search.blocks.append(LoadCounts(6.0, 50, 50, 0))
    # The rate has not failed: higher ones are tried.
    assert min(search.next_rates()) > 8


def test_a_rate_that_failed_twice_has_failed_although_a_higher_one_met_the_limits() -> None:
    search = GoodputSearch(10.0, SHARE, most_blocks=8, ladder=(0.4, 0.6, 0.8))
    for rate, met in zip((*search.next_rates(), 6.0), (50, 20, 50, 10), strict=True):
        search.blocks.append(LoadCounts(rate, met, 50, 50 - met))
    (rate,) = search.next_rates()
    assert 4 < rate < 6


def test_the_search_ends_where_every_rate_meets_the_limits() -> None:
    search = searched(GoodputSearch(1.0, SHARE, most_blocks=4), met=50)
    assert [block.rate for block in search.blocks] == [1, 1.5, 2.5, 3.75]
    assert builders.known(estimate_goodput(search.blocks, SHARE, 0)).value >= 3.75


def test_the_goodput_of_one_process_is_found_with_the_slope_of_both() -> None:
    missed = {4.0: 0, 5.0: 3, 6.0: 30}
    slow, fast = (
        [LoadCounts(factor * rate, 60 - count, 60, count) for rate, count in missed.items()]
        for factor in (1, 2)
    )
    difference, variance = compare_processes(slow, fast, SHARE, 10.0)
    assert difference == pytest.approx(np.log(2), abs=0.05)
    assert 0 < variance < 0.05
    assert compare_processes(slow, slow, SHARE, 10.0)[0] == 0


def test_misses_with_few_others_between_them_are_one_group() -> None:
    assert count_groups([]) == 0
    assert count_groups([False] * 3) == 0
    assert count_groups([True, *[False] * 5, True]) == 1
    assert count_groups([True, *[False] * 6, True]) == 2
    assert group_size([LoadCounts(4.0, 50, 60, 2), LoadCounts(6.0, 10, 60, 1)]) == 5
    assert group_size([LoadCounts(4.0, 60, 60, 0)]) == 1
