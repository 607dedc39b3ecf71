"""Warm up, size a visit, time a block. Takes callables; knows no stack.

The clock is one for all stacks: `perf_counter_ns` on the host around the call and the wait for its
end.
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

from probes.measuring import warmup_detection

NANOSECONDS = 1e-9
#: Bounds of the calls in one visit; above the two limits a call is so long that fewer say enough.
FEWEST_CALLS = 5
MOST_CALLS = 200
LONG_CALL_SECONDS = 0.1
LONG_CALL_COUNT = 3
VERY_LONG_CALL_SECONDS = 0.5
SHORT_CALL_SECONDS = 0.001
#: A warm-up goes on for at most this many times its floor, and looks again each time it has grown
#: by this share.
MOST_WARMUP, LOOK_AGAIN = 10.0, 0.25
#: For a long call, which is many steps and has been made several times to be checked, fewer will
#: do.
MOST_WARMUP_OF_LONG_CALLS = 4.0
#: Times the typical call for which a call counts at most while warming up.
MOST_OF_A_CALL = 5.0
#: A long call that returns only after this share of its time leaves the host nothing to do ahead:
#: the rate is one over its time.
WAITED_SHARE = 0.95


@dataclasses.dataclass(frozen=True)
class Block:
    """The size of a visit: calls that are kept, and calls before them that are not."""

    calls: int
    lead_calls: int


@dataclasses.dataclass(frozen=True)
class Timed:
    """Seconds of each kept call, in order, the median until a call returned, and the processor seconds of the whole block.

    Beside them the seconds of the calls that do not count, and those of a call when nobody waits in
    between.
    """

    seconds: list[float]
    enqueue_seconds: float
    cpu_seconds: float
    lead_seconds: list[float]
    streamed_seconds: float | None


@dataclasses.dataclass(frozen=True)
class Warmth:
    """How a warm-up went: all its calls, where they became steady, whether they did, and the median of the steady ones."""

    calls: int
    calls_until_steady: int
    steady: bool
    typical_seconds: float


def size_block(typical_seconds: float, block_seconds: float) -> Block:
    """Return how many calls fill about `block_seconds`.

    The calls before them see the caches and clocks that the previous arm left; two for calls so
    short that one does not settle them.
    """
    if typical_seconds > VERY_LONG_CALL_SECONDS:
        return Block(calls=1, lead_calls=1)
    if typical_seconds > LONG_CALL_SECONDS:
        return Block(calls=LONG_CALL_COUNT, lead_calls=1)
    calls = min(max(math.ceil(block_seconds / typical_seconds), FEWEST_CALLS), MOST_CALLS)
    return Block(calls=calls, lead_calls=2 if typical_seconds < SHORT_CALL_SECONDS else 1)


def time_block(
    call: Callable[[Any], object],
    fed: Sequence[Any],
    synchronise: Callable[[], None],
    block: Block,
    *,
    offset: int = 0,
    streams: bool = False,
) -> Timed:
    """Call `block.lead_calls + block.calls` times with inputs in rotation and return the times.

    Where the device `streams`, the block is run once more without waiting between the calls: what
    it takes then decides the throughput, for the host need not wait when only the rate matters.
    Long calls that wait by themselves, such as those that generate text, are not.
    """
    inputs = itertools.islice(itertools.cycle(fed), offset % len(fed), None)
    clock = time.perf_counter_ns
    nanoseconds: list[int] = []
    enqueued: list[int] = []
    leading: list[int] = []
    streamed: float | None = None
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(block.lead_calls):
            start = clock()
            call(next(inputs))
            synchronise()
            leading.append(clock() - start)
        cpu_start = time.process_time()
        for _ in range(block.calls):
            value = next(inputs)
            start = clock()
            call(value)
            returned = clock()
            synchronise()
            nanoseconds.append(clock() - start)
            enqueued.append(returned - start)
        cpu_seconds = time.process_time() - cpu_start
        if streams and not _waits_itself(nanoseconds, enqueued):
            start = clock()
            for _ in range(block.calls):
                call(next(inputs))
            synchronise()
            streamed = (clock() - start) * NANOSECONDS / block.calls
    finally:
        if collects:
            gc.enable()
    return Timed(
        seconds=[count * NANOSECONDS for count in nanoseconds],
        enqueue_seconds=statistics.median(enqueued) * NANOSECONDS,
        cpu_seconds=cpu_seconds,
        lead_seconds=[count * NANOSECONDS for count in leading],
        streamed_seconds=streamed,
    )


def _waits_itself(nanoseconds: Sequence[int], enqueued: Sequence[int]) -> bool:
    whole = statistics.median(nanoseconds)
    return (
        whole * NANOSECONDS > LONG_CALL_SECONDS
        and statistics.median(enqueued) > WAITED_SHARE * whole
    )


def warm_up(
    call: Callable[[Any], object],
    fed: Sequence[Any],
    synchronise: Callable[[], None],
    floor_seconds: float,
) -> Warmth:
    """Call until the times are steady, for at least `floor_seconds` and at most ten times that, four times for long calls.

    A call that takes many times as long as the typical one builds or records something: it counts
    for little, or a single one would use the time up.
    """
    times: list[float] = []
    inputs = itertools.cycle(fed)
    look = time.perf_counter() + floor_seconds
    while True:
        start = time.perf_counter_ns()
        call(next(inputs))
        synchronise()
        times.append((time.perf_counter_ns() - start) * NANOSECONDS)
        now = time.perf_counter()
        if now < look or len(times) < FEWEST_CALLS:
            continue
        typical = statistics.median(times[len(times) // 2 :])
        most = MOST_WARMUP_OF_LONG_CALLS if typical > LONG_CALL_SECONDS else MOST_WARMUP
        warm = sum(min(each, MOST_OF_A_CALL * typical) for each in times)
        if warm < floor_seconds:
            look = now + floor_seconds - warm
            continue
        cut = warmup_detection.find_cut(times)
        if (cut.steady and cut.enough) or warm >= most * floor_seconds:
            return Warmth(len(times), cut.calls, cut.steady, statistics.median(times[cut.calls :]))
        look = now + LOOK_AGAIN * warm


def time_pairs(
    one: Callable[[Any], object],
    other: Callable[[Any], object],
    fed: Sequence[Any],
    synchronise: Callable[[], None],
) -> tuple[list[float], list[float]]:
    """Call `one` and `other` in turn, a few times, fewer where `other` is long, and return the seconds of each."""
    inputs = itertools.cycle(fed)
    for call in (one, other):
        call(fed[0])
        synchronise()
    seconds: tuple[list[float], list[float]] = ([], [])
    while len(seconds[1]) < (
        LONG_CALL_COUNT if seconds[1] and seconds[1][-1] > LONG_CALL_SECONDS else FEWEST_CALLS
    ):
        value = next(inputs)
        for call, times in zip((one, other), seconds, strict=True):
            start = time.perf_counter()
            call(value)
            synchronise()
            times.append(time.perf_counter() - start)
    return seconds


def sustain(
    call: Callable[[Any], object],
    fed: Sequence[Any],
    synchronise: Callable[[], None],
    seconds: float,
) -> tuple[int, float]:
    """Call without a pause for `seconds`; return the calls made and the seconds they took."""
    inputs = itertools.cycle(fed)
    calls = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        call(next(inputs))
        synchronise()
        calls += 1
    return calls, time.perf_counter() - start
