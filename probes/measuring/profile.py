"""Profile a few calls with PyTorch's profiler, after the timing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from probes.wire.events import Diagnosed
from probes.wire.shape import Shape

PROFILED_CALLS = 3
#: Functions of the CUDA runtime and driver that launch one kernel, and a captured graph.
KERNEL_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx")
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")
DEVICE_TO_HOST = "Memcpy DtoH"


def profile_calls(
    call: Callable[[Any], object],
    device_inputs: Sequence[Any],
    synchronise: Callable[[], None],
    shape: Shape,
) -> Diagnosed | None:
    """Profile a few calls, each with other inputs; None if PyTorch is not loaded.

    Its profiler sees every CUDA kernel of the process.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    synchronise()
    with torch.profiler.profile(activities=activities) as profile:
        start = perf_counter()
        for value in list(device_inputs)[:PROFILED_CALLS]:
            call(value)
        synchronise()
        wall_seconds = perf_counter() - start
    calls = min(PROFILED_CALLS, len(device_inputs))
    events = profile.events()
    kernels = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem")
    ]
    spans = [(event.time_range.start, event.time_range.end) for event in kernels]

    def count(names: Sequence[str]) -> float | None:
        return sum(event.name in names for event in events) / calls if on_gpu else None

    host_copies = sum(event.name.startswith(DEVICE_TO_HOST) for event in events)
    return Diagnosed(
        shape=shape,
        operators_per_call=sum(event.name.startswith("aten::") for event in events) / calls,
        kernels_per_call=len(kernels) / calls if on_gpu else None,
        launches_per_call=count(KERNEL_LAUNCHES),
        graph_launches_per_call=count(GRAPH_LAUNCHES),
        host_copies_per_call=host_copies / calls if on_gpu else None,
        device_busy_share=busy_seconds(spans) / wall_seconds if on_gpu else None,
    )


def busy_seconds(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds that `spans` of microseconds cover; overlaps count once."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered * 1e-6
