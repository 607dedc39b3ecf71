"""What a device does: kernels of a call, work that is left when it has returned, peak rates.

Calls look faster than they are if work is left when the workflow's `synchronise` returns. It takes
callables and imports no stack.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import Any

from probes.events import Diagnosed, Peaks
from probes.shape import Shape
from probes.timing import LONG_CALL_SECONDS, NANOSECONDS, Timer

#: Maximum number of tries. A single clean try of a call this long is enough.
TRIES = 5
#: Shares of a call's duration: below the first a try is clean; below the second the time to read
#: its output cannot hide relevant late work.
CLEAN_SHARE = 0.01
NEGLIGIBLE_READ_SHARE = 0.05
#: Factor by which reads of one output differ: on 64 processors, 5 MB of float16 took 3.7 or 7.6 ms
#: to be copied from a GPU and widened.
READ_SPREAD = 2.0


def late_share_on_device(timer: Timer, device_synchronise: Callable[[], None]) -> float:
    """Return the share of a call's duration for which the device works after `synchronise`.

    The time that `device_synchronise` takes on an idle device is subtracted. The minimum of several
    tries counts, because noise only adds time.
    """
    shares: list[float] = []
    for _ in range(TRIES):
        timer.synchronise()
        device_synchronise()
        idle = perf_counter()
        device_synchronise()
        start = perf_counter()
        timer.call(timer.device_inputs[0])
        timer.synchronise()
        synchronised = perf_counter()
        device_synchronise()
        end = perf_counter()
        shares.append(max(end - synchronised - (start - idle), 0.0) / (end - start))
        if end - start > LONG_CALL_SECONDS and shares[-1] < CLEAN_SHARE:
            break
    return min(shares)


def late_share_of_output(timer: Timer, collect: Callable[[Any], object]) -> float:
    """Return the share of a call's duration for which its output is late after `synchronise`.

    Late work shows where no device can be synchronised: an output takes longer to read at once
    than after a pause. Over several tries the fastest immediate read is compared with twice the
    slowest delayed one, because reads of the same output differ by that factor.
    """
    call_seconds: list[float] = []
    immediate_reads: list[float] = []
    delayed_reads: list[float] = []
    share = 0.0
    for _ in range(TRIES):
        timer.synchronise()
        start = perf_counter()
        output = timer.call(timer.device_inputs[0])
        timer.synchronise()
        call_seconds.append(perf_counter() - start)
        immediate_reads.append(time_read(collect, output))
        if immediate_reads[-1] <= NEGLIGIBLE_READ_SHARE * call_seconds[-1]:
            return 0.0
        output = timer.call(timer.device_inputs[0])
        timer.synchronise()
        sleep(immediate_reads[-1])
        delayed_reads.append(time_read(collect, output))
        late = max(min(immediate_reads) - READ_SPREAD * max(delayed_reads), 0.0)
        share = late / (statistics.median(call_seconds) + late)
        if call_seconds[-1] > LONG_CALL_SECONDS and share < CLEAN_SHARE:
            break
    return share


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
        waited = pathlib.Path("/proc/thread-self/schedstat").read_bytes().split()[1]
        return int(waited) * NANOSECONDS
    except (OSError, IndexError, ValueError):
        return 0.0


PROFILED_CALLS = 3
#: Functions of the CUDA runtime and driver that launch one kernel, and a captured graph.
KERNEL_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx")
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


def profile_calls(timer: Timer, shape: Shape) -> Diagnosed | None:
    """Profile a few calls, each with other inputs; None if PyTorch is not loaded.

    Its profiler sees every CUDA kernel of the process. `torch.profiler` would do the same, but it
    imports Inductor first, which takes seconds in a worker that has not. The raw events are read,
    because `function_events` takes 13 s for 160,000 events, and this 0.8 s (two cores).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    on_gpu = torch.cuda.is_initialized()
    inputs = timer.device_inputs[:PROFILED_CALLS]
    timer.synchronise()
    device = "cuda" if on_gpu else None
    with torch.autograd.profiler.profile(use_kineto=True, use_device=device) as profile:
        start = perf_counter()
        for value in inputs:
            timer.call(value)
        timer.synchronise()
        wall_seconds = perf_counter() - start
    events = [(each.name(), each) for each in profile.kineto_results.events()]
    spans = [
        (event.start_ns(), event.end_ns())
        for name, event in events
        if event.device_type() == torch.autograd.DeviceType.CUDA and not name.startswith("Mem")
    ]

    def count(names: Sequence[str]) -> float | None:
        return sum(name in names for name, _ in events) / len(inputs) if on_gpu else None

    return Diagnosed(
        shape=shape,
        kernels_per_call=len(spans) / len(inputs) if on_gpu else None,
        launches_per_call=count(KERNEL_LAUNCHES),
        graph_launches_per_call=count(GRAPH_LAUNCHES),
        device_busy_share=busy_seconds(spans) / wall_seconds if on_gpu else None,
    )


def busy_seconds(spans: Sequence[tuple[int, int]]) -> float:
    """Return the seconds that `spans` of nanoseconds cover; overlaps count once."""
    covered = end = 0
    for start, stop in sorted(spans):
        covered += max(0, stop - max(start, end))
        end = max(end, stop)
    return covered * NANOSECONDS


#: Size of the copy: far larger than any cache on a GPU, smaller on a CPU to save memory and time.
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}
SECONDS_PER_PEAK, MIN_RUNS = 0.3, 3
MATRIX_TYPES = {"float32", "float16", "bfloat16"}


def measure_peaks(device: str, dtype: str) -> Peaks | None:
    """Return the bytes that a copy moves and the operations that a square matrix product does.

    None if PyTorch is not loaded. Products are measured in `dtype` only, because a CPU without
    instructions for another precision takes seconds for each product. `own` has no peak: the
    model's precision is not known here.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    synchronise = torch.cuda.synchronize if device == "cuda" else lambda: None
    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    moved = 2 * source.numel()  # a copy reads every byte and writes it
    bytes_per_second = moved / median_of_faster_half(lambda: target.copy_(source), synchronise)
    if dtype not in MATRIX_TYPES:
        return Peaks(bytes_per_second, {})
    size, kind = MATRIX_SIZE[device], getattr(torch, dtype)
    # Random values: zeros draw less power, so the device would clock higher.
    one, two = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    operations = 2 * size**3 / median_of_faster_half(lambda: one @ two, synchronise)
    return Peaks(bytes_per_second, {dtype: operations})


def median_of_faster_half(work: Callable[[], object], synchronise: Callable[[], None]) -> float:
    timer = Timer(lambda _: work(), [None], synchronise)
    timer.time(None)
    times: list[float] = []
    end = perf_counter() + SECONDS_PER_PEAK
    while len(times) < MIN_RUNS or perf_counter() < end:
        times.append(timer.time(None))
    return statistics.median(sorted(times)[: max(len(times) // 2, 1)])
