"""Read what the inputs of a run are like, as the reference worker reported it."""

from __future__ import annotations

from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import RunState
from advisor.measure.workload import has_batch
from advisor.report.documents.document import MeasuredInputs


def read_inputs(state: RunState) -> MeasuredInputs | None:
    """Return the inputs of the batch size with the most fixed ones; None if none was measured."""
    workloads = [
        workload
        for process in state.processes.get(REFERENCE, ())
        for workload in process.workloads.values()
    ]
    if not workloads:
        return None
    return MeasuredInputs(
        fixed=max(workload.fixed_inputs for workload in workloads),
        has_length=workloads[-1].has_length,
        has_batch=has_batch(state),
    )
