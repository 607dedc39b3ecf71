"""An artefact of a run's model for a GPU that is not attached: built, never run, so it is no measurement."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

import msgspec

from advisor import applicability
from advisor.context import Context
from advisor.domain.machine import Machine
from advisor.domain.outcome import Completed
from advisor.domain.plan import CROSS_BUILD, Arm
from advisor.domain.run import Header
from advisor.domain.run_events import Ended, RunEvent
from advisor.domain.workflow import Workflow
from advisor.errors import EnvironmentNotMadeError, NothingViableError, UnknownGpuError
from advisor.pipeline.draft import look
from advisor.pipeline.execution import site_of
from advisor.probing.conditions import Guard
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.store import Run


def build(run: Run, target: str, place: pathlib.Path, world: Context) -> Iterator[RunEvent]:
    """Build the run's model for `target` and lay the artefact into `place`; raise the `UserError` that stands in the way."""
    header = run.header()
    workflow = choose(header, target)
    here = look(header.question.python, header.catalogue, world)
    header = msgspec.structs.replace(
        header,
        machine=here,
        question=msgspec.structs.replace(header.question, device="cpu", gpu=None),
    )
    arm = Arm(
        id=CROSS_BUILD,
        workflow=workflow.id,
        option=target,
        options={"target": target},
        python=find_python(workflow, here),
    )
    site = site_of(run, header, world)
    try:
        with Supervisor(header.catalogue.presets.deadlines, clock=world.clock) as supervisor:
            session = Session(supervisor, site, Guard(None))
            for run_event in work(session, arm):
                yield run_event
                if isinstance(run_event, Ended) and not isinstance(run_event.outcome, Completed):
                    raise NothingViableError(
                        f"{workflow.id} does not build it for {target}: {run_event.outcome.reason}",
                        "see the run's log",
                    )
        place.mkdir(parents=True, exist_ok=True)
        for artefact in (site.scratch / CROSS_BUILD).glob(f"{target}.*"):
            shutil.copy(artefact, place)
    finally:
        shutil.rmtree(site.scratch / CROSS_BUILD, ignore_errors=True)


def work(session: Session, arm: Arm) -> Iterator[RunEvent]:
    """Start the one worker and let it build."""
    yield from session.start([(arm, 0)])
    yield from session.build(arm.id)


def choose(header: Header, target: str) -> Workflow:
    """Return the workflow that builds for `target` without it."""
    able = [workflow for workflow in header.catalogue.workflows if workflow.builds_for]
    chosen = next((workflow for workflow in able if target in workflow.builds_for), None)
    if chosen is None:
        known = ", ".join(sorted({each for workflow in able for each in workflow.builds_for}))
        raise UnknownGpuError(
            f"nothing builds for {target!r} without having it", f"choose among {known}"
        )
    return chosen


def find_python(workflow: Workflow, here: Machine) -> str:
    """Return the interpreter that has the workflow; empty for that of the question."""
    name = applicability.environment_name(workflow)
    made = here.environments.get(name)
    own = workflow.environment.kind == "own" and not applicability.is_served(workflow, here)
    if own and (made is None or made.fault):
        raise EnvironmentNotMadeError(
            f"the environment of {workflow.id} has not been made", f"p3-advisor env create {name}"
        )
    return applicability.python_of(workflow, here)
