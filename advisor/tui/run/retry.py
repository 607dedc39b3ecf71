"""Plan a new run of the arms that failed in an earlier run."""

from __future__ import annotations

import msgspec

from advisor import applicability, machine
from advisor.domain.outcome import Completed
from advisor.domain.run import Header
from advisor.errors import GpuNotAttachedError
from advisor.pipeline.decision import Decision
from advisor.pipeline.draft import DraftRun


def failed_arms(decision: Decision) -> tuple[str, ...]:
    """Return the arms whose last process failed, as values of the option --workflows."""
    arms = decision.state.plan.arms if decision.state.plan else ()
    outcomes = {
        arm: processes[-1].outcome
        for arm, processes in decision.state.processes.items()
        if processes
    }
    failed = [arm for arm in arms if not isinstance(outcomes.get(arm.id), (Completed, type(None)))]
    return tuple(f"{arm.workflow}/{arm.option}" for arm in failed if arm.duplicate_of is None)


def propose_retry(header: Header, workflows: tuple[str, ...]) -> DraftRun:
    """Plan the question of a stored run again, limited to `workflows`.

    Raise `GpuNotAttachedError` if the GPU of that run is not attached to this machine.
    """
    question, catalogue = header.question, header.catalogue
    here = machine.detect(question.python, applicability.required_packages(catalogue))
    if question.gpu and question.gpu not in {gpu.uuid for gpu in here.gpus}:
        raise GpuNotAttachedError(
            "the GPU of that run is not attached",
            "retry on the machine of the run, or press n and choose another device",
        )
    question = msgspec.structs.replace(question, workflows=workflows)
    return DraftRun(catalogue, here, question, applicability.plan(question, here, catalogue))
