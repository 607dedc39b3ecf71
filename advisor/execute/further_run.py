"""What a decided run leads to: a further run, or builds for a device that is not attached.

The artefact for a device that is not attached is built and never run.
"""

from __future__ import annotations

import itertools
import pathlib
import shutil
from collections.abc import Iterator

import msgspec

from advisor.ask import planning
from advisor.ask.obstacles import environment_interpreter, has_stack_in_interpreter
from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import CROSS_BUILD, Arm, ArmName
from advisor.domain.question import Budget, Question, choose_next_budget
from advisor.domain.recommendation import Recommendation
from advisor.domain.run_events import RunEvent, WorkerEnded
from advisor.domain.run_state import Header
from advisor.domain.workflow import Workflow
from advisor.errors import (
    EnvironmentNotUsableError,
    GpuNotAttachedError,
    NothingViableError,
    UnknownGpuError,
)
from advisor.execute.draft import DraftRun, detect_machine
from advisor.execute.execution import refuse_imported, run_config_of
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.store.runs import Run


def arms_to_retry(answer: Answer) -> tuple[str, ...]:
    """Return the arms that failed, as values of the option `--workflows`."""
    return tuple(
        str(ArmName(arm.workflow, arm.option))
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


def build(run: Run, target: str, directory: pathlib.Path, context: Context) -> Iterator[RunEvent]:
    """Build the run's model for the GPU `target` and copy the artefact into `directory`.

    Raise a `UserError` if no workflow builds for the target or the build fails.
    """
    header = run.header()
    refuse_imported(header)
    workflow = choose_workflow(header, target)
    here = detect_machine(header.question.python, header.catalogue, context)
    question = msgspec.structs.replace(header.question, device="cpu", gpu=None)
    header = msgspec.structs.replace(header, machine=here, question=question)
    arm = Arm(
        id=CROSS_BUILD,
        workflow=workflow.id,
        option=target,
        options={"target": target},
        python=interpreter_of(workflow, here),
        eager_fallback=False,
    )
    run_config = run_config_of(run, header, context)
    scratch = run_config.scratch_directory / CROSS_BUILD
    try:
        yield from _build_with_worker(run_config, arm, header, context)
        directory.mkdir(parents=True, exist_ok=True)
        for artefact in scratch.glob(f"{target}.*"):
            shutil.copy(artefact, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _build_with_worker(
    run_config: RunConfig, arm: Arm, header: Header, context: Context
) -> Iterator[RunEvent]:
    """Start one worker and build; raise `NothingViableError` if it fails."""
    with Supervisor(header.catalogue.presets.deadlines, clock=context.clock) as supervisor:
        session = Session(supervisor, run_config, ConditionsMonitor())
        for run_event in itertools.chain(session.start([(arm, 0)]), session.build(arm.id)):
            yield run_event
            if isinstance(run_event, WorkerEnded) and run_event.outcome.failure is not None:
                reason = run_event.outcome.failure.reason
                raise NothingViableError(
                    f"{arm.workflow} cannot build the model for {arm.option}: {reason}",
                    "see the run's log",
                )


def choose_workflow(header: Header, target: str) -> Workflow:
    """Return the first workflow that builds for the GPU `target` while it is not attached."""
    able = [workflow for workflow in header.catalogue.workflows if workflow.builds_for]
    chosen = next((workflow for workflow in able if target in workflow.builds_for), None)
    if chosen is None:
        targets = ", ".join(sorted({gpu for workflow in able for gpu in workflow.builds_for}))
        raise UnknownGpuError(
            f"no workflow builds for {target!r} while it is not attached", f"choose among {targets}"
        )
    return chosen


def interpreter_of(workflow: Workflow, here: Machine) -> str:
    """Return the interpreter that has the workflow's stack; empty for that of the question."""
    name = workflow.environment_name
    made = here.environments.get(name)
    needs_own = workflow.environment.kind == "own" and not has_stack_in_interpreter(workflow, here)
    if needs_own and (made is None or made.fault):
        raise EnvironmentNotUsableError(
            f"the environment of {workflow.id} has not been created",
            f"p3-advisor env create {name}",
        )
    return environment_interpreter(workflow, here)
