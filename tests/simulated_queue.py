"""A server with one queue and a fixed service time (M/D/1) in virtual time, of known goodput.

The unit of time is the service time. Servers are searched and measured again by the rules of
`rubric/serving.toml`, as in a run. A disturbance of the host can slow a share of the blocks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import builders
import numpy as np

from advisor.decide.goodput import Goodput, GoodputSearch, estimate_goodput
from advisor.decide.load_blocks import LoadCounts, count_groups
from advisor.domain.serving import ServingRules

SHARE = 0.95
#: Closed loops find at least this share of the capacity.
LEAST_CAPACITY = 0.9
#: The service time of a block that a disturbance slows.
SLOWED = 1.5
#: Halvings of the interval that holds the true goodput.
HALVINGS = 60


@dataclasses.dataclass(frozen=True)
class Load:
    """A limit of the latency, and the requests of a block at the true goodput.

    A block lasts at least as many times the limit as the rules say.
    """

    limit: float
    requests: int
    #: Share of the blocks whose service time is `SLOWED`.
    slowed_share: float = 0.0

    def visit_seconds(self, rules: ServingRules) -> float:
        return max(self.requests / true_goodput(self.limit), rules.least_ttfts * self.limit)


@functools.cache
def rules_of_serving() -> ServingRules:
    return builders.known(builders.shipped_catalogue().serving)


@functools.cache
def true_goodput(limit: float) -> float:
    """Return the rate at which `SHARE` of the requests wait and are served within the limit."""
    low, high, time = 0.01, 0.9999, limit - 1
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        # The share of requests of an endless queue that wait at most this time (Erlang).
        share = (1 - rate) * sum(
            math.exp(rate * (time - k)) * (rate * (k - time)) ** k / math.factorial(k)
            for k in range(int(time) + 1)
        )
        low, high = (rate, high) if share >= SHARE else (low, rate)
    return low


def latencies(arrivals: Any, work: float, service: float = 1.0) -> Any:
    """Return the time of each request in the queue (Lindley), which has some work at first."""
    steps = service - np.diff(arrivals, prepend=0.0)
    steps[0] = work - arrivals[0]
    total = np.cumsum(steps)
    return total - np.minimum(np.minimum.accumulate(total), 0) + service


def measure_in_turn(
    stream: np.random.RandomState, rates: Sequence[float], load: Load
) -> Iterator[LoadCounts]:
    """Yield a block at each rate; work remains, as the load does not pause between them."""
    rules, work = rules_of_serving(), 0.0
    for rate in rates:
        seconds, is_slowed = load.visit_seconds(rules), False
        if load.slowed_share:
            is_slowed = stream.random_sample() < load.slowed_share
        arrivals = np.cumsum(stream.exponential(1 / rate, size=int(1.5 * rate * seconds) + 60))
        count = max(int(np.searchsorted(arrivals, seconds)), rules.least_requests(SHARE))
        arrivals = arrivals[:count]
        seconds = max(seconds, arrivals[-1])
        times = latencies(arrivals, work, SLOWED if is_slowed else 1.0)
        missed = times[arrivals >= rules.warmup_share * seconds] > load.limit
        yield LoadCounts(rate, int((~missed).sum()), len(missed), count_groups(missed.tolist()))
        work = max(0.0, times[-1] - (seconds - arrivals[-1]))


def measure_server(seed: int, load: Load, start_rate: float | None = None) -> Goodput | None:
    """Return the goodput of one server: searched, then measured again near what was found."""
    rules, stream = rules_of_serving(), np.random.RandomState(seed)
    capacity = LEAST_CAPACITY + (1 - LEAST_CAPACITY) * stream.random_sample()
    search = GoodputSearch(start_rate or capacity, SHARE, rules.most_blocks, rules.ladder)
    while not search.is_finished():
        for rate in search.next_rates():
            # The queue is empty after the pause between two blocks.
            for block in measure_in_turn(stream, [rate], load):
                search.blocks.append(block)
    found = estimate_goodput(search.blocks, SHARE, seed)
    if found is None:
        return None
    rates = [share * found.value for share in rules.repeat_rates]
    return estimate_goodput([*search.blocks, *measure_in_turn(stream, rates, load)], SHARE, seed)
