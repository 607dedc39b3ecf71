"""Build a run's model for a GPU that is not attached.

The artefact is built and never run, so nothing is measured.
"""

from __future__ import annotations

import itertools
import pathlib
import shutil
from collections.abc import Iterator

import msgspec

from advisor.ask.installation import environment_interpreter, has_stack_in_interpreter
from advisor.context import Context
from advisor.domain.machine import Machine
from advisor.domain.plan import CROSS_BUILD, Arm
from advisor.domain.run import Header
from advisor.domain.run_events import RunEvent, WorkerEnded
from advisor.domain.workflow import Workflow
from advisor.errors import EnvironmentNotUsableError, NothingViableError, UnknownGpuError
from advisor.execute.draft import detect_machine
from advisor.execute.execution import refuse_imported, run_config_of
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.store.runs import Run


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
