"""Read the work of one call, as the reference worker counted it."""

from __future__ import annotations

from advisor.domain.plan import REFERENCE
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


def stored_weight_bytes(process: ProcessState) -> int | None:
    """Return the bytes of the weights that the arm stores: the model's by default."""
    if process.engaged is not None and process.engaged.weight_bytes is not None:
        return process.engaged.weight_bytes
    return process.loaded.parameter_bytes if process.loaded is not None else None


def bytes_per_call(state: RunState, process: ProcessState, batch_size: int) -> int | None:
    """Return the least bytes that one call of an arm moves: as counted, else its weights once."""
    workload = workload_of(state, batch_size)
    if workload is None or workload.moved_bytes is None:
        return stored_weight_bytes(process)
    passes = process.loaded.units_per_sample if process.loaded else 1
    return workload.moved_bytes - passes * _saved_bytes(process)


def bytes_per_step(workload: Workload, process: ProcessState) -> int | None:
    """Return the least bytes that one decode step of an arm moves; None for other tasks."""
    if workload.step_bytes is None:
        return None
    return workload.step_bytes - _saved_bytes(process)


def _saved_bytes(process: ProcessState) -> int:
    """Return by how much the weights of the arm are smaller than those of the model.

    Workloads are counted with the weights of the model, and quantised arms read fewer bytes.
    """
    stored = stored_weight_bytes(process)
    if stored is None or process.loaded is None or process.loaded.parameter_bytes is None:
        return 0
    return process.loaded.parameter_bytes - stored
