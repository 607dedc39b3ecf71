"""Draft a further run for a decided one: of its failed arms, or of what it leaves undecided."""

from __future__ import annotations

import msgspec

from advisor.ask import planning
from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.question import Budget, Question, choose_next_budget
from advisor.domain.recommendation import Recommendation
from advisor.domain.run import Header
from advisor.errors import GpuNotAttachedError
from advisor.execute.draft import DraftRun, detect_machine
from advisor.execute.execution import refuse_imported


def arms_to_retry(answer: Answer) -> tuple[str, ...]:
    """Return the arms that failed, as values of the option `--workflows`."""
    return tuple(
        f"{arm.workflow}/{arm.option}"
        for arm in answer.unmeasured
        if arm.option is not None and arm.status != "excluded"
    )


def undecided_workflows(advice: Recommendation | None, question: Question) -> tuple[str, ...]:
    """Return the contenders of an OPEN decision, else the workflows of the question."""
    certainty = advice.certainty if advice is not None else None
    if certainty is not None and certainty.decision_word == "OPEN":
        return tuple(certainty.contenders)
    return question.workflows


def further_budget(answer: Answer, catalogue: Catalogue) -> Budget:
    """Return the budget that the headline names for a further run, else that of the question."""
    own, advice = answer.question.budget, answer.recommendation
    if advice is not None:
        return advice.next_budget or own
    budgets = catalogue.presets.budgets.values()
    return choose_next_budget(budgets, own, made=answer.results.repeats, needed=None) or own


def propose_again(
    header: Header, workflows: tuple[str, ...], context: Context, budget: Budget | None = None
) -> DraftRun:
    """Draft a run of the same question, limited to `workflows`, on this machine as it is now.

    `budget` replaces that of the question. Raise `GpuNotAttachedError` if the GPU of the question
    is not attached, and `RunIsImportedError` for a run of others.
    """
    refuse_imported(header)
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
