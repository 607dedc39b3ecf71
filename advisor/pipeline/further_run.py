"""Draft a further run for a decided one: of its failed arms, or of what it leaves undecided."""

from __future__ import annotations

import msgspec

from advisor.applicability import planning
from advisor.context import Context
from advisor.domain.outcome import Completed
from advisor.domain.question import Budget, Question, choose_next_budget
from advisor.domain.recommendation import Recommendation
from advisor.domain.run import Header
from advisor.domain.run_state import RunState
from advisor.errors import GpuNotAttachedError
from advisor.pipeline.decision import Decision
from advisor.pipeline.draft import DraftRun, detect_machine
from advisor.pipeline.stored.arms import plan_of


def arms_to_retry(state: RunState) -> tuple[str, ...]:
    """Return the arms whose last process failed, as values of the option `--workflows`."""
    outcomes = {
        arm: processes[-1].outcome for arm, processes in state.processes.items() if processes
    }
    return tuple(
        f"{arm.workflow}/{arm.option}"
        for arm in plan_of(state).arms
        if arm.duplicate_of is None
        and not isinstance(outcomes.get(arm.id), (Completed, type(None)))
    )


def undecided_workflows(advice: Recommendation | None, question: Question) -> tuple[str, ...]:
    """Return the contenders of an OPEN decision, else the workflows of the question."""
    if advice is not None and advice.decision_word == "OPEN":
        return advice.contenders
    return question.workflows


def further_budget(decision: Decision) -> Budget:
    """Return the budget that the headline names for a further run, else that of the question."""
    header, advice = decision.header, decision.recommendation
    following = choose_next_budget(
        header.catalogue.presets.budgets.values(),
        header.question.budget,
        made=decision.results.repeats,
        needed=advice.needed_repetitions if advice else None,
    )
    return following or header.question.budget


def propose_again(
    header: Header, workflows: tuple[str, ...], context: Context, budget: Budget | None = None
) -> DraftRun:
    """Draft a run of the same question, limited to `workflows`, on this machine as it is now.

    `budget` replaces that of the question. Raise `GpuNotAttachedError` if the GPU of the question
    is not attached.
    """
    question, catalogue = header.question, header.catalogue
    here = detect_machine(question.python, catalogue, context)
    if question.gpu and question.gpu not in {gpu.uuid for gpu in here.gpus}:
        raise GpuNotAttachedError(
            "the GPU of that run is not attached",
            "retry on the machine of the run, or press n and choose another device",
        )
    question = msgspec.structs.replace(
        question, workflows=workflows, budget=budget or question.budget
    )
    return DraftRun(catalogue, here, question, planning.plan(question, here, catalogue))
