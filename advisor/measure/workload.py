"""Read the work of one call, as the reference worker counted it."""

from __future__ import annotations

from advisor.domain.plan import REFERENCE
from advisor.domain.results import MeasuredInputs
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.worker_events import Workload


def flops_per_call(state: RunState, batch_size: int) -> int | None:
    """Return the floating-point operations of one call, or None if they are not known."""
    counts = [
        process.workloads[batch_size].flops
        for process in state.processes.get(REFERENCE, ())
        if batch_size in process.workloads
    ]
    return next((count for count in reversed(counts) if count), None)


def workload_of(state: RunState, batch_size: int) -> Workload | None:
    """Return the workload of one call."""
    return next(
        (
            process.workloads[batch_size]
            for process in state.processes.get(REFERENCE, ())
            if batch_size in process.workloads
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
    return MeasuredInputs(
        fixed=max(workload.fixed_inputs for workload in workloads),
        has_length=workloads[-1].has_length,
        has_batch=batched[-1] if batched else None,
        shapes=_read_shapes(state),
    )


def _read_shapes(state: RunState) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a worker reported for the recipe of its arm; they are all the same."""
    reported = (
        process.recipe_facts.inputs
        for processes in state.processes.values()
        for process in processes
        if process.recipe_facts is not None and process.recipe_facts.inputs
    )
    return tuple(each.shape for each in next(reported, ()))


def stored_weight_bytes(process: ProcessState) -> int | None:
    """Return the bytes of the weights that the arm stores: the model's by default."""
    if process.engaged is not None and process.engaged.weight_bytes is not None:
        return process.engaged.weight_bytes
    return process.loaded.parameter_bytes if process.loaded is not None else None


def bytes_per_call(state: RunState, process: ProcessState, batch_size: int) -> int | None:
    """Return about how many bytes one call of an arm moves: as counted, else its weights once."""
    workload = workload_of(state, batch_size)
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
