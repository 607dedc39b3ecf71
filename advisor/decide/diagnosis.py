"""Find what limits a call: launches, memory bandwidth or arithmetic, and in which precision.

The input is the profiler's counts and the measured peaks of the device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from advisor.decide.drift import typical_seconds
from advisor.decide.rounds import counted_visits
from advisor.domain.measurement import Bound, CallDiagnosis, Measurement
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Dtype
from advisor.domain.results import MeasuredInputs
from advisor.domain.run_state import ProcessState, RunState
from probes.events import Diagnosed, Peaks, Workload
from probes.shape import Shape

#: A call whose device is busy for less than this share is launch-bound. TensorRT's criterion (the
#: time to enqueue is at least the GPU time) is not used: every synchronous call meets it.
LAUNCH_BOUND_BUSY_SHARE = 0.7
#: A call that reaches this share of a measured peak is bound by it.
BOUND_SHARE = 0.6
#: Weights that would need more than this share of the memory bandwidth stayed in a cache.
CACHED_SHARE = 1.2
#: Most bytes of weights that stay in the cache of one core, or of a GPU, between calls.
CACHED_BYTES = 1 << 20
#: Counts of the profiler that are known only where it saw kernels.
DEVICE_COUNTS = ("kernels_per_call", "graph_launches_per_call", "device_busy_share")


def diagnose(
    diagnosed: Diagnosed | None,
    *,
    shape: Shape,
    seconds: float,
    flops: int | None,
    weight_bytes: int | None,
    dtype: str,
    peaks: Peaks | None,
) -> CallDiagnosis:
    memory = compute = None
    if peaks is not None:
        if weight_bytes and weight_bytes > CACHED_BYTES:
            share = weight_bytes / seconds / peaks.bytes_per_second
            memory = share if share <= CACHED_SHARE else None
        peak = peaks.operations_per_second.get(dtype)
        compute = flops / seconds / peak if flops and peak else None
    # PyTorch's profiler does not see kernels of another process or of JAX: no kernels is unknown.
    sees_kernels = diagnosed is not None and bool(diagnosed.kernels_per_call)
    counts = {name: getattr(diagnosed, name) if sees_kernels else None for name in DEVICE_COUNTS}
    return CallDiagnosis(
        shape=shape,
        **counts,
        memory_share=memory,
        compute_share=compute,
        headroom=None if memory is None or compute is None else 1 - min(max(memory, compute), 1.0),
        bound=find_bound(memory, compute, counts["device_busy_share"]),
    )


def find_bound(memory: float | None, compute: float | None, busy: float | None) -> Bound:
    """Return what limits a call, by the first rule that applies to its shares.

    The device is busy for the share of the call that memory or arithmetic needs at least. The
    profiler slows launches, so it may show less, which then says nothing of the timed calls.
    """
    if memory is not None and memory >= BOUND_SHARE:
        return "memory"
    if compute is not None and compute >= BOUND_SHARE:
        return "compute"
    if busy is not None and max(memory or 0.0, compute or 0.0) <= busy < LAUNCH_BOUND_BUSY_SHARE:
        return "launch"
    return "unknown" if memory is None and compute is None else "mixed"


def flops_per_call(state: RunState, shape: Shape) -> int | None:
    return next((each.flops for each in reversed(_workloads(state, shape)) if each.flops), None)


def workload_of(state: RunState, shape: Shape) -> Workload | None:
    return next(iter(_workloads(state, shape)), None)


def _workloads(state: RunState, shape: Shape) -> list[Workload]:
    references = state.processes.get(REFERENCE, ())
    return [each.workloads[shape] for each in references if shape in each.workloads]


def read_inputs(state: RunState) -> MeasuredInputs | None:
    """Return the inputs of the shape with the most fixed ones; None if none was measured."""
    workloads = [
        workload
        for process in state.processes.get(REFERENCE, ())
        for workload in process.workloads.values()
    ]
    if not workloads:
        return None
    batched = [each.has_batch for each in workloads if each.has_batch is not None]
    # What a worker reports for the snippet of its arm; all report the same.
    facts = [process.snippet_facts for each in state.processes.values() for process in each]
    reported = next((each.inputs for each in facts if each and each.inputs), ())
    return MeasuredInputs(
        fixed=max(workload.fixed_inputs for workload in workloads),
        has_length=workloads[-1].has_length,
        has_batch=batched[-1] if batched else None,
        shapes=tuple(each.shape for each in reported),
        tensors=reported,
        reordered=sum(each.reordered for each in reported),
        example_rows=next((each.rows for each in reported if each.rows), None),
    )


def stored_weight_bytes(process: ProcessState) -> int | None:
    """Return the bytes of the weights that the arm stores: the model's by default."""
    if process.engaged is not None and process.engaged.weight_bytes is not None:
        return process.engaged.weight_bytes
    return process.opened.parameter_bytes if process.opened is not None else None


def bytes_per_call(state: RunState, process: ProcessState, shape: Shape) -> int | None:
    """Return about how many bytes one call of an arm moves: as counted, else its weights once."""
    workload = workload_of(state, shape)
    if workload is None or workload.moved_bytes is None:
        return stored_weight_bytes(process)
    steps = process.opened.units_per_sample - 1 if process.opened else 0
    return _with_stored_weights(workload.moved_bytes, steps * (workload.cache_bytes or 0), process)


def bytes_per_step(workload: Workload, process: ProcessState) -> int | None:
    """Return about how many bytes one decode step of an arm moves; None for other tasks."""
    if workload.step_bytes is None:
        return None
    return _with_stored_weights(workload.step_bytes, workload.cache_bytes or 0, process)


def _with_stored_weights(counted: int, of_cache: int, process: ProcessState) -> int:
    """Return the counted bytes with the weights as the arm stores them.

    Workloads are counted with the weights of the model: those that a step reads, without the
    embedding table and idle experts. Quantised arms read fewer bytes in proportion. At most
    `of_cache` bytes are read from the cache, which is not quantised.
    """
    stored = stored_weight_bytes(process)
    native = process.opened.parameter_bytes if process.opened is not None else None
    if stored is None or not native:
        return counted
    of_weights = max(counted - of_cache, 0)
    return counted - of_weights + int(of_weights * stored / native)


#: Share of the arithmetic peak above which the peak was measured too low: the device was disturbed,
#: or the arms need fewer operations than are counted, as Winograd's convolutions do.
MOST_OF_PEAK = 1.25


def device_peaks(state: RunState, dtype: Dtype) -> Peaks | None:
    """Return the measured peaks of the device, if there are any.

    The arithmetic peak of `dtype` is missing if an exact native arm exceeds it by far. An arm that
    is less exact may compute in a lower precision, so it disproves nothing.
    """
    measured = [each.peaks for each in state.processes.get(REFERENCE, ()) if each.peaks]
    if not measured:
        return None
    peaks = measured[-1]
    peak = peaks.operations_per_second.get(dtype)
    if peak is None or max(_exact_rates(state), default=0.0) <= MOST_OF_PEAK * peak:
        return peaks
    others = {each: rate for each, rate in peaks.operations_per_second.items() if each != dtype}
    return dataclasses.replace(peaks, operations_per_second=others)


def _exact_rates(state: RunState) -> Iterator[float]:
    """Yield the operations a second of the exact native arms, by arm and shape."""
    for planned in state.plan.arms:
        if planned.weight_format is not None or not state.is_valid(planned.id):
            continue
        processes = state.processes[planned.id]
        checks = [each for process in processes for each in process.checked.items()]
        for shape, checked in checks:
            visits = [visit for _, visit in counted_visits(state, planned.id, shape)]
            flops = flops_per_call(state, shape)
            if checked.accuracy_class == "exact" and visits and flops:
                yield flops / typical_seconds(visits)


#: The measured peak may be too low by less than this factor.
ABOVE_PEAK = 1.2


def find_lower_precision(measurements: Sequence[Measurement]) -> list[str]:
    """Return the arms that probably compute in a lower precision than was asked for.

    Their outputs are less exact, and they exceed the peak that was measured in that precision.
    TensorRT for RTX, for example, rounds float32 products to TF32 although that is switched off.
    """
    return [
        each.arm
        for each in measurements
        if any(checked.accuracy_class == "close" for checked in each.correctness)
        and any((call.compute_share or 0.0) > ABOVE_PEAK for call in each.diagnosis)
    ]
