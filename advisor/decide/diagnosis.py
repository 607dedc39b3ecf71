"""Find what limits a call: launches, memory bandwidth or arithmetic.

The input is the profiler's counts and the measured peaks of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from advisor.domain.measurement import Bound, CallDiagnosis
from advisor.system.number_format import format_share
from probes.wire.events import Diagnosed, Peaks
from probes.wire.shape import Shape

#: A call whose device is busy for less than this share is launch-bound. TensorRT's criterion (the
#: time to enqueue is at least the GPU time) is not used: every synchronous call meets it.
LAUNCH_BOUND_BUSY_SHARE = 0.7
#: A call that reaches this share of a measured peak is bound by it.
BOUND_SHARE = 0.6
#: Weights that would need more than this share of the memory bandwidth stayed in a cache.
CACHED_SHARE = 1.2
#: Counts of the profiler that are known only where it saw kernels.
DEVICE_COUNTS = (
    "kernels_per_call",
    "launches_per_call",
    "graph_launches_per_call",
    "host_copies_per_call",
    "device_busy_share",
)


class _PeakShares(NamedTuple):
    """Shares of the measured peaks; None where they are not known."""

    memory: float | None
    compute: float | None


def diagnose(
    diagnosed: Diagnosed | None,
    *,
    shape: Shape,
    seconds: float,
    enqueue_seconds: float | None,
    flops: int | None,
    weight_bytes: int | None,
    dtype: str,
    peaks: Peaks | None,
) -> CallDiagnosis:
    """Return the diagnosis of a call of `seconds`; null for what is not known."""
    shares = _peak_shares(seconds, flops, weight_bytes, dtype, peaks)
    known = [share for share in shares if share is not None]
    # PyTorch's profiler does not see kernels of another process or of JAX: no kernels is unknown.
    sees_kernels = diagnosed is not None and bool(diagnosed.kernels_per_call)
    counts = {name: getattr(diagnosed, name) if sees_kernels else None for name in DEVICE_COUNTS}
    call = CallDiagnosis(
        shape=shape,
        operators_per_call=diagnosed.operators_per_call if diagnosed else None,
        **counts,
        enqueue_share=min(enqueue_seconds / seconds, 1.0)
        if sees_kernels and enqueue_seconds is not None
        else None,
        memory_share=shares.memory,
        compute_share=shares.compute,
        headroom=1 - min(max(known), 1.0) if known else None,
        bound="unknown",
        summary="",
    )
    bound = find_bound(call)
    return msgspec.structs.replace(call, bound=bound, summary=summarise_call(call, bound))


def _peak_shares(
    seconds: float, flops: int | None, weight_bytes: int | None, dtype: str, peaks: Peaks | None
) -> _PeakShares:
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    memory = weight_bytes / seconds / peaks.bytes_per_second if weight_bytes and peaks else None
    is_cached = memory is not None and memory > CACHED_SHARE
    return _PeakShares(
        memory=None if is_cached else memory,
        compute=flops / seconds / peak if flops and peak else None,
    )


def find_bound(call: CallDiagnosis) -> Bound:
    """Return what limits the call, by the first rule that applies.

    A call that nearly reaches a measured peak does not wait for launches: the profiler, which slows
    them, then shows a device that is less busy than it is in the timed calls.
    """
    if call.memory_share is not None and call.memory_share >= BOUND_SHARE:
        return "memory"
    if call.compute_share is not None and call.compute_share >= BOUND_SHARE:
        return "compute"
    if call.device_busy_share is not None and call.device_busy_share < LAUNCH_BOUND_BUSY_SHARE:
        return "launch"
    return "mixed" if call.memory_share is not None or call.compute_share is not None else "unknown"


#: Name of each bound in a summary.
TITLES: Mapping[Bound, str] = {
    "launch": "launch-bound",
    "memory": "memory-bound",
    "compute": "compute-bound",
    "mixed": "no single bound",
    "unknown": "limit unknown",
}
#: Meaning of each bound for the user.
ADVICE: Mapping[Bound, str] = {
    "launch": "the GPU is idle for a large part of the call, waiting for kernel launches; "
    "fusion, CUDA graphs and larger batches help",
    "memory": "reading the weights takes most of the time; "
    "smaller weights help, a better compiler hardly does",
    "compute": "arithmetic takes most of the time; "
    "a lower precision helps, a better compiler hardly does",
    "mixed": "neither memory nor arithmetic is near its limit; a better compiler can help",
    "unknown": "no share of a measured peak is known for this call",
}


def summarise_call(call: CallDiagnosis, bound: Bound) -> str:
    """Return one sentence with the bound, the figures behind it and its meaning."""
    figures = []
    if call.kernels_per_call is not None:
        figures.append(f"{call.kernels_per_call:,.0f} kernels a call")
    if call.graph_launches_per_call:
        figures.append(f"{call.graph_launches_per_call:,.0f} launches of whole graphs")
    peaks = [share for share in (call.memory_share, call.compute_share) if share is not None]
    if call.device_busy_share is not None and call.device_busy_share >= max(peaks, default=0.0):
        figures.append(f"GPU busy {format_share(call.device_busy_share)}")
    if call.memory_share is not None:
        figures.append(f"{_share_of_peak(call.memory_share)} of the memory bandwidth")
    if call.compute_share is not None:
        figures.append(f"{_share_of_peak(call.compute_share)} of the arithmetic peak")
    if not figures:
        return ADVICE["unknown"]
    return f"{TITLES[bound]}: {', '.join(figures)}; {ADVICE[bound]}"


def _share_of_peak(share: float) -> str:
    """Return a share of a measured peak; a call can exceed what the test of the peak reached."""
    return format_share(share) if share <= 1 else f"all ({format_share(share)} as measured)"
