"""Time a fixed piece of host work of about a millisecond: Python and, on a GPU, kernel launches.

Calls that wait for the host are as fast as the host is at that moment. The time of the same work in
each visit shows how the host's own speed changes.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter_ns

#: Passes of which the median counts, so that one interruption does not show.
PASSES = 3
#: Additions in one pass, and kernel launches where there is a GPU.
ADDITIONS, LAUNCHES = 5000, 30


def time_host(launch: Callable[[], object] | None = None) -> float:
    """Return the median seconds of a pass; `launch` starts one kernel without waiting for it."""
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
    return statistics.median(passes) * 1e-9


def find_launch() -> Callable[[], object] | None:
    """Return a function that launches a tiny kernel; None if PyTorch uses no GPU here."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    value = torch.zeros(1, device="cuda")
    return lambda: value.add_(0)
