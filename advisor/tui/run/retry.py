"""Plan a new run of the arms that failed in an earlier run."""

from __future__ import annotations

import msgspec

from advisor.applicability import planning
from advisor.applicability.installation import required_packages
from advisor.domain.outcome import Completed
from advisor.domain.question import Budget
from advisor.domain.run import Header
from advisor.errors import GpuNotAttachedError
from advisor.machine import detection
from advisor.pipeline.decision import Decision
from advisor.pipeline.draft import DraftRun
from advisor.tui.answer import RunAnswer


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


def undecided_workflows(answer: RunAnswer) -> tuple[str, ...]:
    """Return the workflows that an open decision is between, else those of the question."""
    advice = answer.recommendation
    if advice is not None and advice.decision_word == "OPEN":
        return advice.contenders
    return answer.document.question.workflows


def longer_budget(answer: RunAnswer) -> Budget:
    """Return the shortest budget of the catalogue that is longer than the run's, else the run's."""
    present = answer.document.question.budget
    longer = [
        budget
        for budget in answer.catalogue.presets.budgets.values()
        if budget.measuring_seconds > present.measuring_seconds
    ]
    return min(longer, key=lambda budget: budget.measuring_seconds, default=present)


def propose_retry(
    header: Header, workflows: tuple[str, ...], budget: Budget | None = None
) -> DraftRun:
    """Plan the question of a stored run again, limited to `workflows`, with another budget.

    Raise `GpuNotAttachedError` if the GPU of that run is not attached to this machine.
    """
    question, catalogue = header.question, header.catalogue
    here = detection.detect(question.python, required_packages(catalogue))
    if question.gpu and question.gpu not in {gpu.uuid for gpu in here.gpus}:
        raise GpuNotAttachedError(
            "the GPU of that run is not attached",
            "retry on the machine of the run, or press n and choose another device",
        )
    question = msgspec.structs.replace(
        question, workflows=workflows, budget=budget or question.budget
    )
    return DraftRun(catalogue, here, question, planning.plan(question, here, catalogue))
