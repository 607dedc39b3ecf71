"""Warm up, size a visit, time a block. Takes callables; knows no stack.

The clock is one for all stacks: `perf_counter_ns` on the host around the call and the wait for its end.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

NANOSECONDS = 1e-9
#: Bounds of the calls in one visit; above the two limits a call is so long that fewer say enough.
FEWEST_CALLS, MOST_CALLS = 5, 200
LONG_CALL_SECONDS, LONG_CALL_COUNT = 0.1, 3
VERY_LONG_CALL_SECONDS = 0.5
SHORT_CALL_SECONDS = 0.001


@dataclasses.dataclass(frozen=True)
class Block:
    """The size of a visit: calls that are kept, and calls before them that are not."""

    calls: int
    lead_calls: int


@dataclasses.dataclass(frozen=True)
class Timed:
    """Seconds of each kept call, in order, and the processor seconds of the whole block."""

    seconds: list[float]
    cpu_seconds: float


def size_block(typical_seconds: float, block_seconds: float) -> Block:
    """Return how many calls fill about `block_seconds`.

    The calls before them see the caches and clocks that the previous arm left; two for calls so short that one does not settle them.
    """
    if typical_seconds > VERY_LONG_CALL_SECONDS:
        return Block(calls=1, lead_calls=1)
    if typical_seconds > LONG_CALL_SECONDS:
        return Block(calls=LONG_CALL_COUNT, lead_calls=1)
    calls = min(max(math.ceil(block_seconds / typical_seconds), FEWEST_CALLS), MOST_CALLS)
    return Block(calls=calls, lead_calls=2 if typical_seconds < SHORT_CALL_SECONDS else 1)


def time_block(
    call: Callable[[Any], object], fed: Sequence[Any], synchronise: Callable[[], None], block: Block, *, offset: int = 0
) -> Timed:
    """Call `block.lead_calls + block.calls` times with inputs in rotation and return the kept times."""
    inputs = itertools.islice(itertools.cycle(fed), offset % len(fed), None)
    clock = time.perf_counter_ns
    nanoseconds: list[int] = []
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(block.lead_calls):
            call(next(inputs))
            synchronise()
        cpu_start = time.process_time()
        for _ in range(block.calls):
            value = next(inputs)
            start = clock()
            call(value)
            synchronise()
            nanoseconds.append(clock() - start)
        cpu_seconds = time.process_time() - cpu_start
    finally:
        if collects:
            gc.enable()
    return Timed(seconds=[count * NANOSECONDS for count in nanoseconds], cpu_seconds=cpu_seconds)


def warm_up(call: Callable[[Any], object], fed: Sequence[Any], synchronise: Callable[[], None], seconds: float) -> list[float]:
    """Call until `seconds` have passed and at least five calls are made; return the time of each call."""
    times: list[float] = []
    inputs = itertools.cycle(fed)
    end = time.perf_counter() + seconds
    while len(times) < FEWEST_CALLS or time.perf_counter() < end:
        start = time.perf_counter_ns()
        call(next(inputs))
        synchronise()
        times.append((time.perf_counter_ns() - start) * NANOSECONDS)
    return times


def typical(times: Sequence[float]) -> float:
    """Return the median of the later half: the earlier may still be warming up."""
    return statistics.median(times[len(times) // 2 :])
