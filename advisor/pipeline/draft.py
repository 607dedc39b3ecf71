"""A run before it starts: the question, the machine and the plan."""

from __future__ import annotations

import dataclasses
import pathlib

import msgspec

import advisor
from advisor import applicability, catalogue, machine, question
from advisor.context import Context
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import Plan
from advisor.domain.question import Question
from advisor.domain.run import SCHEMA, Header
from advisor.domain.run_events import LoggedEvent, Planned, RunEvent
from advisor.pipeline import other_platforms, survey
from advisor.probing.environments import containers, places
from advisor.question.answers import Answers
from advisor.store import Run


@dataclasses.dataclass(frozen=True)
class DraftRun:
    """What a run would be, before anything is stored."""

    catalogue: Catalogue
    machine: Machine
    question: Question
    plan: Plan


def propose(answers: Answers, world: Context, here: Machine | None = None) -> DraftRun:
    """Check the answers, look at the machine unless `here` is what was seen, and make the plan."""
    known = catalogue.load(
        world.rubric,
        probes=world.probes,
        rubric=pathlib.Path(answers.rubric) if answers.rubric else None,
    )
    here = look(question.interpreter_of(answers), known, world, here)
    asked = question.resolve(answers, here, known, world.environment.get(question.VISIBLE_DEVICES))
    known = known.on(asked.device)
    return DraftRun(known, here, asked, applicability.plan(asked, here, known))


def look(python: str, known: Catalogue, world: Context, here: Machine | None = None) -> Machine:
    """Return the machine with the interpreter `python`, unless `here` is what was seen of it, and the environments made on it."""
    here = here or machine.detect(python, applicability.required_packages(known))
    made = places.find_made(places.default_root(world.environment), known.workflows, world.rubric)
    engine = containers.find_engine(world.environment)
    wanted = {container.image for workflow in known.workflows for container in workflow.containers}
    images = containers.find_images(engine, sorted(wanted)) if engine else ()
    return msgspec.structs.replace(here, environments=made, engine=engine, images=images)


def prepare(answers: Answers, world: Context) -> Run:
    """Check the answers, look at the machine, make the plan and store all of it as a new run."""
    return create(propose(answers, world), world)


def create(proposal: DraftRun, world: Context) -> Run:
    """Store a proposal as a new run."""
    created = world.now()
    header = Header(
        schema=SCHEMA,
        run_id=f"{created:%Y%m%d-%H%M%S}-{world.random.getrandbits(16):04x}",
        created=created.isoformat(timespec="seconds"),
        advisor_version=advisor.__version__,
        question=proposal.question,
        machine=proposal.machine,
        catalogue=proposal.catalogue,
    )
    known = () if proposal.question.survey else survey.recall(world.store, header)
    first: tuple[RunEvent, ...] = (
        Planned(plan=proposal.plan),
        *known,
        *other_platforms.recall(world.store, header),
    )
    run = world.store.create(header)
    with run.writer() as writer:
        for number, run_event in enumerate(first, start=1):
            writer.append(LoggedEvent(seq=number, at=0.0, run_event=run_event))
    return run
