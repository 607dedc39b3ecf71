"""Measure how fast the host is now, and call from a processor on which it is fast.

A virtual processor is mostly one of the two threads of a core. While another machine uses the other
thread, for milliseconds to seconds, host work takes about twice as long, and no counter of the
kernel shows it. Calls that wait for the host, as most small ones on a GPU do, then take two or
three times as long.
"""

from __future__ import annotations

import contextlib
import math
import os
from time import perf_counter

#: Number of passes and additions of each; the fastest pass counts, so one interruption is hidden.
PASSES, ADDITIONS = 2, 2500
#: Processors that are tried, and the largest slowdown at which the thread stays.
MOST_TRIED, LEAST_SLOWDOWN = 16, 1.15


def time_host() -> float:
    """Return the seconds of a fixed piece of host work of about a tenth of a millisecond."""
    fastest = math.inf
    for _ in range(PASSES):
        start = perf_counter()
        total = 0
        for number in range(ADDITIONS):
            total += number
        fastest = min(fastest, perf_counter() - start)
    return fastest


class Host:
    """The processor of the calling thread; more than `most_slowdown` disturbs a call."""

    def __init__(self, most_slowdown: float) -> None:
        self.most_slowdown = most_slowdown
        self._fastest = math.inf

    def slowdown(self) -> float:
        """Return how many times its fastest time so far the work takes now."""
        seconds = time_host()
        self._fastest = min(self._fastest, seconds)
        return seconds / self._fastest

    def settle(self) -> None:
        """Move to a processor that is fast now; the first time, find out what fast is.

        Threads that start later may run on all processors.
        """
        is_known = self._fastest < math.inf
        if self.slowdown() > LEAST_SLOWDOWN or not is_known:
            # Where a container forbids it, the thread stays.
            with contextlib.suppress(OSError):
                self._move()

    def _move(self) -> None:
        usable, seconds = os.sched_getaffinity(0), dict[float, int]()
        try:
            for processor in sorted(usable)[:MOST_TRIED]:
                os.sched_setaffinity(0, {processor})
                seconds[time_host()] = processor
            os.sched_setaffinity(0, {seconds[min(seconds)]})
            self._fastest = min(self._fastest, *seconds)
        finally:
            os.sched_setaffinity(0, usable)
