"""Time programs in short blocks that alternate, each when the process is idle."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from probes.measuring.allocator import keep_freed_blocks
from probes.measuring.timing import TimedBlock, size_block, time_block

#: Minimum of alternating blocks. Calls that take seconds are timed once or three times in each.
MIN_ROUNDS = 5
#: The process counts as idle if it uses less than this share of a processor for this long. Some
#: threads spin after a call while they wait for the next.
IDLE_SECONDS = 0.005
IDLE_SHARE = 0.2
MAX_IDLE_CHECKS = 100


@dataclasses.dataclass(frozen=True)
class TimedProgram:
    """A callable, and the inputs that its calls use in rotation."""

    call: Callable[[Any], object]
    device_inputs: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Speed:
    """Durations of a call, each the median over all blocks."""

    #: With a wait for its end.
    seconds: float
    #: In a row of calls without waiting in between. The throughput follows from it.
    streamed_seconds: float


def time_alternately(
    programs: Sequence[TimedProgram], synchronise: Callable[[], None], seconds: float, request: Any
) -> list[Speed]:
    """Return the speed of each program, timed as in the measurement.

    Short blocks of calls alternate, and each starts when the process is idle. The warm-up calls
    before them determine the size of a block.
    """
    keep_freed_blocks()
    blocks = [
        size_block(warm_up(each, synchronise, seconds / MIN_ROUNDS), request.block_seconds)
        for each in programs
    ]
    timed: list[list[TimedBlock]] = [[] for _ in programs]
    end = time.perf_counter() + seconds * len(programs)
    with frozen_objects():
        while len(timed[0]) < MIN_ROUNDS or time.perf_counter() < end:
            for each, block, results in zip(programs, blocks, timed, strict=True):
                wait_until_idle()
                results.append(
                    time_block(
                        each.call,
                        each.device_inputs,
                        synchronise,
                        block,
                        offset=len(results) * block.calls,
                        streams=request.device == "cuda",
                    )
                )
    return [median_speed(results) for results in timed]


@contextlib.contextmanager
def frozen_objects() -> Iterator[None]:
    """Exclude all present objects from garbage collection inside the `with`.

    `time_block` collects garbage before it times. Walking all objects of a stack leaves the
    processor's caches cold: OpenXLA's calls took 5.6 ms instead of 4.7.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def warm_up(program: TimedProgram, synchronise: Callable[[], None], seconds: float) -> float:
    """Call for `seconds` and return the median duration of a call."""
    durations: list[float] = []
    inputs, end = itertools.cycle(program.device_inputs), time.perf_counter() + seconds
    while not durations or time.perf_counter() < end:
        start = time.perf_counter()
        program.call(next(inputs))
        synchronise()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def wait_until_idle() -> None:
    """Wait until no thread of this process computes, for at most half a second."""
    for _ in range(MAX_IDLE_CHECKS):
        used = time.process_time()
        time.sleep(IDLE_SECONDS)
        if time.process_time() - used < IDLE_SHARE * IDLE_SECONDS:
            return


def median_speed(blocks: Sequence[TimedBlock]) -> Speed:
    seconds = statistics.median(statistics.median(block.seconds) for block in blocks)
    streamed = [block.streamed_seconds for block in blocks if block.streamed_seconds is not None]
    return Speed(seconds, statistics.median(streamed) if streamed else seconds)
