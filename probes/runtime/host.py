"""Measure how fast the host is now, and call from a processor on which it is fast.

A virtual processor is mostly one of the two threads of a core. While another machine uses the other
thread, for tenths of seconds to seconds, host work takes about twice as long, and no counter of the
kernel shows it. Calls that wait for the host, as most small ones on a GPU do, then take two or
three times as long.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from probes.measuring.timing import NANOSECONDS

#: Passes of which the median counts, so that one interruption does not show.
PASSES = 3
#: Additions in one pass, and kernel launches where there is a GPU.
ADDITIONS, LAUNCHES = 5000, 30
#: Processors that are tried, and how many times the fastest time of the work still counts as fast.
MOST_TRIED, FAST_RATIO = 16, 1.1


def time_host(launch: Callable[[], object] | None = None) -> float:
    """Return the median seconds of a fixed piece of host work of about a millisecond.

    `launch` starts one kernel without waiting for it.
    """
    passes = []
    for _ in range(PASSES):
        start = perf_counter_ns()
        total = 0
        for number in range(ADDITIONS):
            total += number
        if launch is not None:
            for _ in range(LAUNCHES):
                launch()
        passes.append(perf_counter_ns() - start)
    return statistics.median(passes) * NANOSECONDS


class Host:
    """The processor of the calling thread."""

    def __init__(self, launch: Callable[[], object] | None) -> None:
        """`launch` is that of `time_host`; None without a GPU."""
        self._launch = launch
        self._seconds = 0.0
        self._fastest = 0.0

    def settle(self) -> None:
        """Move to a processor that is fast now.

        Without a GPU the threads of the program occupy the processors, and the thread stays.
        Threads that start later may run on all processors.
        """
        if self._launch is None:
            return
        self._seconds = time_host(self._launch)
        if not self._is_fast():
            self._move()
        self._fastest = min(self._fastest or self._seconds, self._seconds)

    def slowdown(self) -> float | None:
        """Return how many times as long the work takes as after `settle`; None without a GPU."""
        return time_host(self._launch) / self._seconds if self._launch is not None else None

    def _move(self) -> None:
        usable, processors = os.sched_getaffinity(0), dict[float, int]()
        # Where a container forbids it, the thread stays.
        with contextlib.suppress(OSError):
            try:
                for processor in sorted(usable)[:MOST_TRIED]:
                    os.sched_setaffinity(0, {processor})
                    self._seconds = time_host(self._launch)
                    processors[self._seconds] = processor
                    if self._is_fast():
                        break
                self._seconds = min(processors)
                os.sched_setaffinity(0, {processors[self._seconds]})
            finally:
                os.sched_setaffinity(0, usable)

    def _is_fast(self) -> bool:
        return self._seconds <= FAST_RATIO * self._fastest


def find_launch() -> Callable[[], object] | None:
    """Return a function that launches a tiny kernel; None if PyTorch uses no GPU here."""
    torch = torch_on_gpu()
    if torch is None:
        return None
    value = torch.zeros(1, device="cuda")
    return lambda: value.add_(0)


def torch_on_gpu() -> Any:
    """Return the module `torch` if the stack has loaded it and it uses a GPU, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None
