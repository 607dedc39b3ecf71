"""What happens inside a call, by PyTorch's profiler: after the timing, never in it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from probes.protocol import Diagnosis

PROFILED_CALLS = 3
#: What the CUDA runtime is asked to do when kernels are started one by one, and when a captured
#: graph is started as a whole.
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx")
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")
DEVICE_TO_HOST = "Memcpy DtoH"


def diagnose(
    call: Callable[[Any], object],
    fed: Sequence[Any],
    synchronise: Callable[[], None],
    batch_size: int,
) -> Diagnosis | None:
    """Profile a few calls; None where PyTorch, whose profiler sees every CUDA kernel of the process, is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_device = torch.cuda.is_initialized()
    if on_device:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    synchronise()
    with torch.profiler.profile(activities=activities) as profile:
        start = time.perf_counter()
        for value in list(fed)[:PROFILED_CALLS]:
            call(value)
        synchronise()
        wall = time.perf_counter() - start
    calls = min(PROFILED_CALLS, len(fed))
    events = profile.events()
    kernels = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem")
    ]
    return Diagnosis(
        batch_size=batch_size,
        operators_per_call=sum(event.name.startswith("aten::") for event in events) / calls,
        kernels_per_call=len(kernels) / calls if on_device else None,
        launches_per_call=sum(event.name in LAUNCHES for event in events) / calls
        if on_device
        else None,
        graph_launches_per_call=sum(event.name in GRAPH_LAUNCHES for event in events) / calls
        if on_device
        else None,
        host_copies_per_call=sum(event.name.startswith(DEVICE_TO_HOST) for event in events) / calls
        if on_device
        else None,
        device_busy_share=busy_seconds(
            [(event.time_range.start, event.time_range.end) for event in kernels]
        )
        / wall
        if on_device
        else None,
    )


def busy_seconds(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds covered by `spans` of microseconds, overlaps counted once."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered * 1e-6
