"""Composition root: the one place that knows the order of the stages. Yields events; prints nothing, exits nowhere."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import msgspec

import advisor
from advisor import applicability, catalogue, machine, measure, question, recommend, score, survey
from advisor.domain.catalogue import Catalogue
from advisor.domain.decision import Recommendation, ScoredArm
from advisor.domain.events import Event, Finished, Happening, Planned, Resumed
from advisor.domain.machine import Machine
from advisor.domain.measurement import Results
from advisor.domain.outcome import Completed, ModelRefused
from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.question import Constraint, Priorities, Question
from advisor.domain.run import SCHEMA, Header
from advisor.domain.state import RunState, fold
from advisor.errors import BudgetSpentError, ModelRefusedError, NothingViableError, UserError
from advisor.pipeline import finals, pruning, racing, surveying
from advisor.probing.device import MemoryWatch
from advisor.probing.environments import places
from advisor.probing.guard import GpuWatch, Guard
from advisor.probing.launch import Supervisor
from advisor.probing.visits import Session, Site
from advisor.question.answers import Answers
from advisor.store import Run
from advisor.world import World as World


@dataclasses.dataclass
class Progress:
    """The state of a run that goes on: as of the last happening that was stored."""

    state: RunState


@dataclasses.dataclass(frozen=True)
class Decision:
    """What follows from a run's state; without a recommendation `problem` says why there is none."""

    header: Header
    state: RunState
    results: Results
    scored: tuple[ScoredArm, ...]
    recommendation: Recommendation | None
    problem: UserError | None


@dataclasses.dataclass(frozen=True)
class Proposal:
    """What a run would be, before anything is stored."""

    catalogue: Catalogue
    machine: Machine
    question: Question
    plan: Plan


def propose(answers: Answers, world: World, here: Machine | None = None) -> Proposal:
    """Check the answers, look at the machine unless `here` is what was seen, and make the plan."""
    known = catalogue.load(world.rubric, probes=world.probes, rubric=pathlib.Path(answers.rubric) if answers.rubric else None)
    here = look(question.interpreter_of(answers), known, world, here)
    asked = question.resolve(answers, here, known)
    return Proposal(known, here, asked, applicability.plan(asked, here, known))


def look(python: str, known: Catalogue, world: World, here: Machine | None = None) -> Machine:
    """Return the machine with the interpreter `python`, unless `here` is what was seen of it, and the environments made on it."""
    here = here or machine.detect(python, applicability.required_packages(known))
    made = places.find_made(places.default_root(world.environment), known.workflows, world.rubric)
    return msgspec.structs.replace(here, environments=made)


def prepare(answers: Answers, world: World) -> Run:
    """Check the answers, look at the machine, make the plan and store all of it as a new run."""
    return create(propose(answers, world), world)


def create(proposal: Proposal, world: World) -> Run:
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
    run = world.store.create(header)
    known = () if proposal.question.survey else surveying.recall(world.store, header)
    with run.writer() as writer:
        first: tuple[Happening, ...] = (Planned(plan=proposal.plan), *known)
        for number, happening in enumerate(first, start=1):
            writer.append(Event(seq=number, at=0.0, happening=happening))
    return run


def execute(run: Run, world: World) -> Iterator[Event]:
    """Do what the run's plan still asks for; yield each event after it is stored. Raise the `UserError` that ends it early."""
    header = run.header()
    with run.writer() as writer:
        progress = Progress(fold(run.events()))
        begun = world.clock() - progress.state.at
        for happening in _steps(run, header, progress, world):
            event = Event(seq=progress.state.seq + 1, at=world.clock() - begun, happening=happening)
            writer.append(event)
            progress.state = fold([event], progress.state)
            yield event
    if progress.state.finished:
        run.clear_scratch()


def _steps(run: Run, header: Header, progress: Progress, world: World) -> Iterator[Happening]:
    """Build what is needed, race it, let it end."""
    if progress.state.finished:
        return
    if progress.state.processes:
        yield Resumed()
    asked, presets = header.question, header.catalogue.presets
    guard = Guard(GpuWatch(asked.gpu) if asked.gpu else None)
    with guard.running(), open_session(run, header, world, guard) as session:
        yield from _build(session, asked, progress)
        yield from racing.drive(session, lambda: progress.state, asked, presets.guard, world.clock)
        yield from finals.look_closer(session, lambda: progress.state, asked)
        yield from session.stop()
        yield from finals.repeat(session, lambda: progress.state, asked, presets.guard)
    if asked.survey:
        with Supervisor(presets.deadlines, clock=world.clock) as supervisor:
            site = site_of(run, header, world)
            yield from surveying.take(progress.state, asked, header.catalogue.panel, site, lambda own: Session(supervisor, own, guard))
    yield Finished()


@contextlib.contextmanager
def open_session(run: Run, header: Header, world: World, guard: Guard) -> Iterator[Session]:
    """Yield a session for the workers of a run; whatever is left of them is ended with the block."""
    gpu = header.question.gpu
    with Supervisor(header.catalogue.presets.deadlines, clock=world.clock) as supervisor:
        yield Session(supervisor, site_of(run, header, world), guard, MemoryWatch(gpu) if gpu else None)


def site_of(run: Run, header: Header, world: World) -> Site:
    """Return where the workers of a run work, and on what."""
    return Site(
        question=header.question,
        machine=header.machine,
        arms=run.arms,
        scratch=run.scratch,
        probes=world.probes,
        minimum_engaged_share=header.catalogue.rubric.minimum_engaged_share,
        environment=world.environment,
    )


def _build(session: Session, asked: Question, progress: Progress) -> Iterator[Happening]:
    """Start, build and warm every arm that is still needed, in turn; raise when the model or the baseline cannot be had."""
    arms = racing.needed_arms(progress.state, asked)
    if not arms:
        return
    baseline = racing.plan_of(progress.state).baseline
    if not _has_completed(progress.state, REFERENCE):
        yield from session.make_reference(baseline, _process_number(progress.state, REFERENCE))
    built = {arm for arm, processes in progress.state.processes.items() if any(process.ready for process in processes)}
    yield from session.start([(arm, _process_number(progress.state, arm.id)) for arm in arms], built=built)
    if session.is_running(REFERENCE):
        # Now, because nobody imports and nobody has touched the device yet.
        yield from session.check_memory()
    if session.is_running(REFERENCE):
        yield from session.ask(REFERENCE, "peaks")
    if not _has_completed(progress.state, REFERENCE):
        raise _cannot_begin(progress.state, REFERENCE)
    for arm in arms:
        yield from session.build(arm.id, pruning.limit_build(progress.state, arm.id, asked))
        if arm == baseline and not session.is_running(arm.id):
            raise _cannot_begin(progress.state, arm.id)


def _process_number(state: RunState, arm: str) -> int:
    return len(state.processes.get(arm, ()))


def _has_completed(state: RunState, arm: str) -> bool:
    return any(isinstance(process.outcome, Completed) for process in state.processes.get(arm, ()))


def _cannot_begin(state: RunState, arm: str) -> UserError:
    """Say why there is nothing to compare with: the model cannot be opened, or eager PyTorch cannot run it."""
    outcome = state.processes[arm][-1].outcome
    reason, fix = getattr(outcome, "reason", "it ended"), getattr(outcome, "fix", None)
    if isinstance(outcome, ModelRefused):
        return ModelRefusedError(reason, fix or "open the model by itself in the same interpreter")
    return NothingViableError(f"the {arm} cannot be had: {reason}", fix or "choose another precision, size or device")


def decide(
    run: Run,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> Decision:
    """Score and decide from what is stored, if asked with other priorities, constraints or rubric; the same run gives the same answer."""
    header, state = run.header(), fold(run.events())
    changes = {"priorities": priorities, "constraints": constraints}
    asked = msgspec.structs.replace(header.question, **{name: value for name, value in changes.items() if value is not None})
    known = msgspec.structs.replace(header.catalogue, rubric=catalogue.read_rubric(rubric)) if rubric else header.catalogue
    return judge(msgspec.structs.replace(header, question=asked, catalogue=known), state)


def judge(header: Header, state: RunState) -> Decision:
    """Summarise, score and decide, as far as the run has come."""
    races = racing.results_by_batch_size(state, header.question)
    results = measure.summarise(state, races, dtype=header.question.dtype, margin=recommend.EPSILON)
    surveys = survey.summarise(surveying.findings_of(state, header.question), header.catalogue.panel)
    return _advise(header, state, msgspec.structs.replace(results, surveys=surveys))


def reconsider(decision: Decision, priorities: Priorities, constraints: tuple[Constraint, ...]) -> Decision:
    """Decide again from the same results with other priorities and constraints: quick enough to be done while a weight is moved."""
    asked = msgspec.structs.replace(decision.header.question, priorities=priorities, constraints=constraints)
    return _advise(msgspec.structs.replace(decision.header, question=asked), decision.state, decision.results)


def _advise(header: Header, state: RunState, results: Results) -> Decision:
    scored = score.score(results, header.question, header.catalogue)
    try:
        if not scored and racing.OUT_OF_TIME in state.closed.values():
            raise BudgetSpentError("the measuring time was spent before there was anything to decide on", "allow more with --budget")
        advice = recommend.recommend(results, scored, header.question, racing.plan_of(state).excluded, header.catalogue.guidelines)
    except UserError as problem:
        return Decision(header, state, results, scored, None, problem)
    return Decision(header, state, results, scored, advice, None)
