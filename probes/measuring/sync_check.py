"""Check that the work of a call is done when the workflow's `synchronise` returns.

Otherwise its calls look faster than they are. It takes callables and imports no stack.
"""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

NANOSECONDS = 1e-9
#: Maximum number of tries. A single clean try of a call this long is enough.
TRIES = 5
LONG_CALL_SECONDS = 0.1
#: Shares of a call's duration: below the first a try is clean; below the second the time to read
#: its output cannot hide relevant late work.
CLEAN_SHARE = 0.01
NEGLIGIBLE_READ_SHARE = 0.05
#: By which factor reads of one output differ: on 64 processors, 5 MB of float16 took 3.7 or 7.6 ms
#: to be copied from a GPU and widened.
READ_SPREAD = 2.0


def late_share_on_device(
    call: Callable[[Any], object],
    device_inputs: Any,
    synchronise: Callable[[], None],
    device_synchronise: Callable[[], None],
) -> float:
    """Return the share of a call's duration for which the device works after `synchronise`.

    The time that `device_synchronise` takes on an idle device is subtracted. The minimum of several
    tries counts, because noise only adds time.
    """
    shares: list[float] = []
    for _ in range(TRIES):
        synchronise()
        device_synchronise()
        idle = perf_counter()
        device_synchronise()
        start = perf_counter()
        call(device_inputs)
        synchronise()
        synchronised = perf_counter()
        device_synchronise()
        end = perf_counter()
        shares.append(max(end - synchronised - (start - idle), 0.0) / (end - start))
        if end - start > LONG_CALL_SECONDS and shares[-1] < CLEAN_SHARE:
            break
    return min(shares)


def late_share_of_output(
    call: Callable[[Any], object],
    collect: Callable[[Any], object],
    device_inputs: Any,
    synchronise: Callable[[], None],
) -> float:
    """Return the share of a call's duration for which its output is late after `synchronise`.

    Late work shows where no device can be synchronised: an output takes longer to read at once
    than after a pause. Over several tries the fastest immediate read is compared with twice the
    slowest delayed one, because reads of the same output differ by that factor.
    """
    calls: list[float] = []
    immediate_reads: list[float] = []
    delayed_reads: list[float] = []
    share = 0.0
    for _ in range(TRIES):
        synchronise()
        start = perf_counter()
        output = call(device_inputs)
        synchronise()
        calls.append(perf_counter() - start)
        immediate_reads.append(time_read(collect, output))
        if immediate_reads[-1] <= NEGLIGIBLE_READ_SHARE * calls[-1]:
            return 0.0
        delayed_reads.append(
            _time_delayed_read(call, collect, device_inputs, synchronise, immediate_reads[-1])
        )
        late = max(min(immediate_reads) - READ_SPREAD * max(delayed_reads), 0.0)
        share = late / (statistics.median(calls) + late)
        if calls[-1] > LONG_CALL_SECONDS and share < CLEAN_SHARE:
            break
    return share


def _time_delayed_read(
    call: Callable[[Any], object],
    collect: Callable[[Any], object],
    device_inputs: Any,
    synchronise: Callable[[], None],
    pause_seconds: float,
) -> float:
    output = call(device_inputs)
    synchronise()
    sleep(pause_seconds)
    return time_read(collect, output)


def time_read(collect: Callable[[Any], object], output: Any) -> float:
    """Return the seconds that reading an output takes, less this thread's run-queue delay.

    On a busy machine a thread that has just computed waits longer for a processor than one that has
    slept. Without the subtraction every immediate read would look late.
    """
    waited, start = run_queue_seconds(), perf_counter()
    collect(output)
    return max(perf_counter() - start - (run_queue_seconds() - waited), 0.0)


def run_queue_seconds() -> float:
    """Return how long this thread has waited for a processor so far; 0 if it cannot be read."""
    try:
        return (
            int(pathlib.Path("/proc/thread-self/schedstat").read_bytes().split()[1]) * NANOSECONDS
        )
    except (OSError, IndexError, ValueError):
        return 0.0
