"""Is the work done when a workflow says so? Where it is not, its calls look faster than they are.

Takes callables; knows no stack.
"""

from __future__ import annotations

import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

NANOSECONDS = 1e-9
#: Tries, and a call that is so long that one clean try says enough.
TRIES = 5
LONG_CALL_SECONDS = 0.1
#: Of a call's time, what is as good as no late work.
CLEAN_SHARE = 0.01
#: Of a call's time, what reading its output may take without being looked into: no late work that
#: matters hides in less.
SHORT_READ = 0.05
#: How far apart reads of one output were seen to be: on 64 processors, 5 MB of halves took 3.7 or
#: 7.6 ms to come over from a GPU and widen.
READS_DIFFER = 2.0


def device_share(
    call: Callable[[Any], object],
    fed: Any,
    synchronise: Callable[[], None],
    device_synchronise: Callable[[], None],
) -> float:
    """Return the share of a call's time for which the device is busy after the workflow has said that it is done.

    What a wait for an idle device costs is taken off, and the least of a few tries counts, since
    noise only adds. A long call that is clean is not tried again.
    """
    shares: list[float] = []
    for _ in range(TRIES):
        synchronise()
        device_synchronise()
        idle = time.perf_counter()
        device_synchronise()
        start = time.perf_counter()
        call(fed)
        synchronise()
        said = time.perf_counter()
        device_synchronise()
        end = time.perf_counter()
        shares.append(max(end - said - (start - idle), 0.0) / (end - start))
        if end - start > LONG_CALL_SECONDS and shares[-1] < CLEAN_SHARE:
            break
    return min(shares)


def output_share(
    call: Callable[[Any], object],
    collect: Callable[[Any], object],
    fed: Any,
    synchronise: Callable[[], None],
) -> float:
    """Return the share of a call's time that its output has to be waited for after the workflow has said that it is done.

    It is seen in reads that take longer at once than a while later, where no device can be asked.
    Of a few tries the quickest read at once counts, and the slowest later one, twice: reads of one
    and the same output differ by that much. A long call that is clean is not tried again.
    """
    calls: list[float] = []
    reads: list[float] = []
    later_reads: list[float] = []
    share = 0.0
    for _ in range(TRIES):
        synchronise()
        start = time.perf_counter()
        output = call(fed)
        synchronise()
        calls.append(time.perf_counter() - start)
        reads.append(time_read(collect, output))
        if reads[-1] <= SHORT_READ * calls[-1]:
            return 0.0
        later_reads.append(_read_later(call, collect, fed, synchronise, reads[-1]))
        unfinished = max(min(reads) - READS_DIFFER * max(later_reads), 0.0)
        share = unfinished / (statistics.median(calls) + unfinished)
        if calls[-1] > LONG_CALL_SECONDS and share < CLEAN_SHARE:
            break
    return share


def _read_later(
    call: Callable[[Any], object],
    collect: Callable[[Any], object],
    fed: Any,
    synchronise: Callable[[], None],
    seconds: float,
) -> float:
    """Return how long the output takes to read when it is left alone for `seconds` first."""
    output = call(fed)
    synchronise()
    time.sleep(seconds)
    return time_read(collect, output)


def time_read(collect: Callable[[Any], object], output: Any) -> float:
    """Return how long an output takes to read, without what this thread was kept waiting for a processor.

    Who has just computed waits longer for one than who has slept, so on a busy machine all reads at
    once would take longer.
    """
    waited, start = seconds_kept_waiting(), time.perf_counter()
    collect(output)
    return max(time.perf_counter() - start - (seconds_kept_waiting() - waited), 0.0)


def seconds_kept_waiting() -> float:
    """Return how long this thread has been kept waiting for a processor so far; 0 where the system does not tell."""
    try:
        return (
            int(pathlib.Path("/proc/thread-self/schedstat").read_bytes().split()[1]) * NANOSECONDS
        )
    except (OSError, IndexError, ValueError):
        return 0.0
