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


def bytes_per_call(state: RunState, process: ProcessState, batch_size: int) -> int | None:
    """Return the least bytes that one call moves: as counted, else the weights once."""
    workload = workload_of(state, batch_size)
    if workload is not None and workload.moved_bytes is not None:
        return workload.moved_bytes
    return process.loaded.parameter_bytes if process.loaded else None
