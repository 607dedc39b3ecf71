"""Read what the inputs of a run are like, as its workers reported it."""

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
