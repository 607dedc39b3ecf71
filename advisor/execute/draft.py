"""Draft a run (question, machine and plan) and store it as a new run."""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec

from advisor.ask import detection, planning
from advisor.ask.answers import Answers
from advisor.ask.devices import VISIBLE_DEVICES
from advisor.ask.obstacles import required_packages
from advisor.ask.resolve import max_load_seconds, resolve, worker_interpreter
from advisor.ask.rubric_files import load as load_catalogue
from advisor.context import Context
from advisor.decide import performance_portability
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import Plan
from advisor.domain.question import Question
from advisor.domain.run_events import LoggedEvent, Planned, RunEvent
from advisor.domain.run_state import SCHEMA, Header
from advisor.errors import SandboxError
from advisor.execute import build_limits, servers
from advisor.probing.environments import registry
from advisor.store.runs import Run
from advisor.version import __version__
from probes.runtime import sandbox


@dataclasses.dataclass(frozen=True)
class DraftRun:
    """A run before it is stored."""

    catalogue: Catalogue
    machine: Machine
    question: Question
    plan: Plan


def propose(answers: Answers, context: Context, detected: Machine | None = None) -> DraftRun:
    """Check the answers, detect the machine and make the plan.

    `detected` is the machine with its interpreter if the caller has detected it already.
    """
    catalogue = load_catalogue(
        context.rubric,
        probes=context.probes,
        rubric=pathlib.Path(answers.rubric) if answers.rubric else None,
    )
    here = detect_machine(worker_interpreter(answers), catalogue, context, detected)
    if answers.sandbox:
        require()
    question = resolve(answers, here, catalogue, context.environment.get(VISIBLE_DEVICES))
    catalogue = catalogue.for_question(question)
    catalogue = _with_open_deadline(catalogue, max_load_seconds(answers))
    if question.load is not None:
        servers.find_interpreter(catalogue, here)
    return DraftRun(catalogue, here, question, planning.plan(question, here, catalogue))


def _with_open_deadline(catalogue: Catalogue, seconds: float | None) -> Catalogue:
    """Return the catalogue with another deadline for opening the model; None keeps the shipped."""
    if seconds is None:
        return catalogue
    presets = catalogue.presets
    deadlines = msgspec.structs.replace(presets.deadlines, load=seconds)
    return msgspec.structs.replace(
        catalogue, presets=msgspec.structs.replace(presets, deadlines=deadlines)
    )


def detect_machine(
    python: str, catalogue: Catalogue, context: Context, detected: Machine | None = None
) -> Machine:
    """Return the machine with the interpreter `python`, its environments.

    `detected` is the machine with its interpreter if the caller has detected it already.
    """
    here = detected or detection.detect(python, required_packages(catalogue))
    root = registry.default_root(context.environment)
    environments = registry.find_created(root, catalogue.workflows, context.rubric)
    return msgspec.structs.replace(here, environments=environments)


def prepare(answers: Answers, context: Context) -> Run:
    """Check the answers, detect the machine, make the plan and store all of it as a new run."""
    return create(propose(answers, context), context)


def create(draft: DraftRun, context: Context) -> Run:
    """Store a draft as a new run, with what stored runs measured on other platforms."""
    created = context.now()
    header = Header(
        schema=SCHEMA,
        run_id=context.new_id(created),
        created=created.isoformat(timespec="seconds"),
        advisor_version=__version__,
        question=draft.question,
        machine=draft.machine,
        catalogue=draft.catalogue,
    )
    plan = build_limits.with_expected_builds(draft.plan, header, context.store)
    first: tuple[RunEvent, ...] = (
        Planned(plan=plan),
        *performance_portability.find_platforms(context.store, header),
    )
    run = context.store.create(header)
    with run.writer() as writer:
        for number, run_event in enumerate(first, start=1):
            writer.append(LoggedEvent(seq=number, at=0.0, run_event=run_event))
    return run


def require() -> None:
    """Raise `SandboxError` with the reason where workers cannot be confined."""
    obstacle = sandbox.find_obstacle()
    if obstacle is not None:
        raise SandboxError(
            f"the sandbox cannot be used here: {obstacle}",
            "omit --sandbox for a model that you trust, or run in a container or virtual machine",
        )
