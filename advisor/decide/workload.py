"""The work of one call, and the measured peaks of the device. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from advisor.decide.drift import typical_seconds
from advisor.decide.rounds import counted_visits, is_valid
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Dtype
from advisor.domain.results import MeasuredInputs
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.events import InputFacts, Peaks, Workload
from probes.wire.shape import Shape


def flops_per_call(state: RunState, shape: Shape) -> int | None:
    """Return the floating-point operations of one call, or None if they are not known."""
    counts = [
        process.workloads[shape].flops
        for process in state.processes.get(REFERENCE, ())
        if shape in process.workloads
    ]
    return next((count for count in reversed(counts) if count), None)


def workload_of(state: RunState, shape: Shape) -> Workload | None:
    """Return the workload of one call."""
    return next(
        (
            process.workloads[shape]
            for process in state.processes.get(REFERENCE, ())
            if shape in process.workloads
        ),
        None,
    )


def read_inputs(state: RunState) -> MeasuredInputs | None:
    """Return the inputs of the batch size with the most fixed ones; None if none was measured."""
    workloads = [
        workload
        for process in state.processes.get(REFERENCE, ())
        for workload in process.workloads.values()
    ]
    if not workloads:
        return None
    batched = [each.has_batch for each in workloads if each.has_batch is not None]
    reported = _read_reported(state)
    return MeasuredInputs(
        fixed=max(workload.fixed_inputs for workload in workloads),
        has_length=workloads[-1].has_length,
        has_batch=batched[-1] if batched else None,
        shapes=tuple(each.shape for each in reported),
        reordered=sum(each.reordered for each in reported),
    )


def _read_reported(state: RunState) -> tuple[InputFacts, ...]:
    """Return what a worker reported for the recipe of its arm; all report the same."""
    reported = (
        process.recipe_facts.inputs
        for processes in state.processes.values()
        for process in processes
        if process.recipe_facts is not None and process.recipe_facts.inputs
    )
    return next(reported, ())


def stored_weight_bytes(process: ProcessState) -> int | None:
    """Return the bytes of the weights that the arm stores: the model's by default."""
    if process.engaged is not None and process.engaged.weight_bytes is not None:
        return process.engaged.weight_bytes
    return process.loaded.parameter_bytes if process.loaded is not None else None


def bytes_per_call(state: RunState, process: ProcessState, shape: Shape) -> int | None:
    """Return about how many bytes one call of an arm moves: as counted, else its weights once."""
    workload = workload_of(state, shape)
    if workload is None or workload.moved_bytes is None:
        return stored_weight_bytes(process)
    steps = process.loaded.units_per_sample - 1 if process.loaded else 0
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
    native = process.loaded.parameter_bytes if process.loaded is not None else None
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
    """Yield the operations a second of the exact native arms, by arm and batch size."""
    for arm in state.plan.arms if state.plan else ():
        if not is_valid(state, arm.id):
            continue
        for shape in _exact_shapes(state, arm):
            visits = [visit for _, visit in counted_visits(state, arm.id, shape)]
            flops = flops_per_call(state, shape)
            if visits and flops:
                yield flops / typical_seconds(visits)


def _exact_shapes(state: RunState, arm: Arm) -> list[Shape]:
    """Return the shapes at which the outputs of a native arm are exact."""
    if arm.weights is not None:
        return []
    return [
        shape
        for process in state.processes[arm.id]
        for shape, checked in process.checked.items()
        if checked.accuracy_class == "exact"
    ]
