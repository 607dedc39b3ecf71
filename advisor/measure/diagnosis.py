"""What holds a call back: launches, memory or arithmetic; from the profiler's counts and the device's measured peaks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from advisor.domain.measurement import Bound, CallDiagnosis
from advisor.domain.worker_events import Diagnosed, Peaks

#: Below it launches hold a call back. TensorRT's criterion, that enqueuing takes as long as
#: computing, is true as well of any call that returns when it is done.
LAUNCH_BOUND_BUSY_SHARE = 0.7
#: Share of a measured peak from which that peak is what holds a call back.
BOUND_SHARE = 0.6
#: Weights that seem to move faster than memory can were not moved: they stayed in a cache.
CACHED_SHARE = 1.2


def diagnose(
    diagnosed: Diagnosed | None,
    *,
    batch_size: int,
    seconds: float,
    enqueue_seconds: float | None,
    flops: int | None,
    weight_bytes: int | None,
    dtype: str,
    peaks: Peaks | None,
) -> CallDiagnosis:
    """Return what is known about one call of `seconds`; null where nothing is."""
    memory_share = (
        weight_bytes / seconds / peaks.bytes_per_second if weight_bytes and peaks else None
    )
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    compute_share = flops / seconds / peak if flops and peak else None
    cached = memory_share is not None and memory_share > CACHED_SHARE
    known = [
        share for share in (None if cached else memory_share, compute_share) if share is not None
    ]
    # PyTorch's profiler sees no kernel of another process, nor any of JAX's: that is not to have
    # seen none.
    on_device = diagnosed is not None and bool(diagnosed.kernels_per_call)
    counts = {
        name: getattr(diagnosed, name)
        if diagnosed and (on_device or name == "operators_per_call")
        else None
        for name in (
            "operators_per_call",
            "kernels_per_call",
            "launches_per_call",
            "graph_launches_per_call",
            "host_copies_per_call",
            "device_busy_share",
        )
    }
    found = CallDiagnosis(
        batch_size=batch_size,
        **counts,
        enqueue_share=min(enqueue_seconds / seconds, 1.0)
        if on_device and enqueue_seconds is not None
        else None,
        memory_share=None if cached else memory_share,
        compute_share=compute_share,
        headroom=1 - min(max(known), 1.0) if known else None,
        bound="unknown",
        words="",
    )
    return describe(found, bound_of(found))


def bound_of(call: CallDiagnosis) -> Bound:
    """Return what holds the call back, by the first rule that applies."""
    if call.device_busy_share is not None and call.device_busy_share < LAUNCH_BOUND_BUSY_SHARE:
        return "launch"
    if call.memory_share is not None and call.memory_share >= BOUND_SHARE:
        return "memory"
    if call.compute_share is not None and call.compute_share >= BOUND_SHARE:
        return "compute"
    return "mixed" if call.memory_share is not None or call.compute_share is not None else "unknown"


#: What each bound means for the user.
ADVICE: Mapping[Bound, str] = {
    "launch": "starting kernels takes longer than running them: fusion and CUDA graphs help, larger batches too",
    "memory": "reading the weights takes most of the time: smaller weights help, a better compiler hardly",
    "compute": "arithmetic takes most of the time: a lower precision helps, a better compiler hardly",
    "mixed": "neither memory nor arithmetic is near its limit: a better compiler can still win",
    "unknown": "what holds it back could not be seen here",
}


def describe(call: CallDiagnosis, bound: Bound) -> CallDiagnosis:
    """Return the diagnosis with its bound and the sentence that says it."""
    seen = []
    if call.kernels_per_call is not None:
        seen.append(f"{call.kernels_per_call:,.0f} kernels a call")
    if call.graph_launches_per_call:
        seen.append(f"{call.graph_launches_per_call:,.0f} of the launches start a whole graph")
    if call.device_busy_share is not None:
        seen.append(f"GPU busy {call.device_busy_share:.0%}")
    if call.memory_share is not None:
        seen.append(f"{call.memory_share:.0%} of the memory bandwidth for the weights")
    if call.compute_share is not None:
        seen.append(f"{call.compute_share:.0%} of the arithmetic peak")
    head = {"launch": "launch-bound", "memory": "memory-bound", "compute": "compute-bound"}.get(
        bound, "no single bound"
    )
    words = f"{head}: {', '.join(seen)}; {ADVICE[bound]}" if seen else ADVICE["unknown"]
    return msgspec.structs.replace(call, bound=bound, words=words)
