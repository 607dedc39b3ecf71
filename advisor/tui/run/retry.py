"""What failed in a run, asked once more."""

from __future__ import annotations

import msgspec

from advisor import applicability, machine
from advisor.domain.outcome import Completed
from advisor.domain.run import Header
from advisor.errors import GpuNotAttachedError
from advisor.pipeline.decision import Decision
from advisor.pipeline.draft import DraftRun


def failed_arms(decision: Decision) -> tuple[str, ...]:
    """Return the arms that were started and came to nothing, as the option --workflows takes them."""
    arms = decision.state.plan.arms if decision.state.plan else ()
    ends = {
        arm: processes[-1].outcome
        for arm, processes in decision.state.processes.items()
        if processes
    }
    failed = [arm for arm in arms if not isinstance(ends.get(arm.id), (Completed, type(None)))]
    return tuple(f"{arm.workflow}/{arm.option}" for arm in failed if arm.duplicate_of is None)


def propose_again(header: Header, workflows: tuple[str, ...]) -> DraftRun:
    """Ask a stored run's question again of this machine, limited to `workflows`; raise `GpuNotAttachedError` on another one."""
    asked, known = header.question, header.catalogue
    here = machine.detect(asked.python, applicability.required_packages(known))
    if asked.gpu and asked.gpu not in {gpu.uuid for gpu in here.gpus}:
        raise GpuNotAttachedError(
            "the GPU of that run is not attached", "go on where it was made, or ask anew with n"
        )
    asked = msgspec.structs.replace(asked, workflows=workflows)
    return DraftRun(known, here, asked, applicability.plan(asked, here, known))
