"""Composition root: the one place that knows the order of the stages.

Yields events; prints nothing, exits nowhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from advisor.context import Context
from advisor.domain.outcome import ModelRefused
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run import Header, fleet_of
from advisor.domain.run_events import Finished, LoggedEvent, Resumed, RunEvent
from advisor.domain.run_state import RunState, fold
from advisor.errors import (
    ModelRefusedError,
    NothingViableError,
    RunIsImportedError,
    RunOfFleetError,
    UserError,
)
from advisor.pipeline import build_limits, racing, remaining, repetitions, survey
from advisor.pipeline.arms import controls, plan_of, raced_arms
from advisor.probing.conditions import GpuWatch, Guard
from advisor.probing.device_memory import MemoryWatch
from advisor.probing.run_config import RunConfig
from advisor.probing.session import Session
from advisor.probing.supervisor import Supervisor
from advisor.store import Run


@dataclasses.dataclass
class Progress:
    """The state of a run that goes on: as of the last happening that was stored."""

    state: RunState


def check_own(header: Header) -> None:
    """Raise the `UserError` that keeps a run from going on here."""
    if header.imported:
        raise RunIsImportedError(
            f"run {header.run_id} was made on another machine",
            "measure here with p3-advisor recommend",
        )
    fleet = fleet_of(header.run_id)
    if fleet is not None:
        raise RunOfFleetError(
            f"run {header.run_id} was begun on a device of a fleet",
            f"p3-advisor fleet {fleet} --resume",
        )


def execute(run: Run, world: Context) -> Iterator[LoggedEvent]:
    """Do what the run's plan still asks for; yield each event after it is stored.

    Raise the `UserError` that ends it early.
    """
    header = run.header()
    check_own(header)
    with run.writer() as writer:
        progress = Progress(run.state())
        begun = world.clock() - progress.state.at
        for run_event in _steps(run, header, progress, world):
            event = LoggedEvent(
                seq=progress.state.seq + 1, at=world.clock() - begun, run_event=run_event
            )
            writer.append(event)
            progress.state = fold([event], progress.state)
            yield event
    if progress.state.finished:
        run.clear_scratch()


def _steps(run: Run, header: Header, progress: Progress, world: Context) -> Iterator[RunEvent]:
    """Build what is needed, race it, let it end."""
    if progress.state.finished:
        return
    if progress.state.processes:
        yield Resumed()
    asked, presets = header.question, header.catalogue.presets
    guard = Guard(GpuWatch(asked.gpu) if asked.gpu else None)
    with guard.running(), open_session(run, header, world, guard) as session:
        while True:
            before = progress.state
            yield from _build(session, asked, progress)
            yield from racing.drive(
                session, lambda: progress.state, asked, presets.guard, world.clock
            )
            waits = remaining.waiting_arms(progress.state, asked) and session.is_running(
                plan_of(progress.state).baseline.id
            )
            if not waits or _how_far(progress.state, asked) == _how_far(before, asked):
                break
            yield from repetitions.make_room(session, lambda: progress.state, asked)
        yield from repetitions.look_closer(session, lambda: progress.state, asked)
        yield from session.stop()
        yield from repetitions.repeat(session, lambda: progress.state, asked, presets.guard)
    if asked.survey:
        with Supervisor(presets.deadlines, clock=world.clock) as supervisor:
            site = site_of(run, header, world)
            yield from survey.take(
                progress.state,
                asked,
                header.catalogue.panel,
                site,
                lambda own: Session(supervisor, own, guard, turns=world.turns),
            )
    yield Finished()


def _how_far(state: RunState, asked: Question) -> tuple[object, ...]:
    """Return how far the races have come, and who waits for one."""
    return state.groups, state.closed, remaining.waiting_arms(state, asked)


@contextlib.contextmanager
def open_session(run: Run, header: Header, world: Context, guard: Guard) -> Iterator[Session]:
    """Yield a session for the workers of a run; whatever is left of them is ended with the block."""
    gpu = header.question.gpu
    with Supervisor(header.catalogue.presets.deadlines, clock=world.clock) as supervisor:
        yield Session(
            supervisor,
            site_of(run, header, world),
            guard,
            MemoryWatch(gpu) if gpu else None,
            turns=world.turns,
        )


def site_of(run: Run, header: Header, world: Context) -> RunConfig:
    """Return where the workers of a run work, and on what."""
    return RunConfig(
        question=header.question,
        machine=header.machine,
        arms=run.arms,
        scratch=run.scratch,
        probes=world.probes,
        minimum_engaged_share=header.catalogue.rubric.minimum_engaged_share,
        environment=world.environment,
    )


def _build(session: Session, asked: Question, progress: Progress) -> Iterator[RunEvent]:
    """Start every arm that is still needed and build as many as memory allows; raise when the model or the baseline cannot be had."""
    arms = remaining.needed_arms(progress.state, asked)
    if not arms:
        return
    baseline = plan_of(progress.state).baseline
    if not has_reference(progress.state):
        yield from session.make_reference(baseline, _process_number(progress.state, REFERENCE))
    built = {
        arm
        for arm, processes in progress.state.processes.items()
        if any(process.ready for process in processes)
    }
    waiting = [arm for arm in arms if not session.is_running(arm.id)]
    yield from session.start(
        [(arm, _process_number(progress.state, arm.id)) for arm in waiting], built=built
    )
    if session.is_running(REFERENCE):
        # Now, because nobody imports and nobody has touched the device yet.
        yield from session.check_memory()
    if session.is_running(REFERENCE):
        yield from session.ask(REFERENCE, "peaks")
    if not has_reference(progress.state):
        raise _cannot_begin(progress.state, REFERENCE)
    yield from _build_in_turn(
        session, [arm for arm in arms if not session.is_built(arm.id)], asked, progress
    )


def _build_in_turn(
    session: Session, arms: Sequence[Arm], asked: Question, progress: Progress
) -> Iterator[RunEvent]:
    """Build and warm one after the other, while there is time for it.

    When memory is short the rest waits for a race of its own against the best of this one.
    """
    baseline = plan_of(progress.state).baseline
    known = raced_arms(progress.state) | controls(progress.state)
    for arm in arms:
        if (
            any(other.id not in known for other in racing.built_arms(session, progress.state))
            and not session.has_room()
        ):
            return
        limit = build_limits.limit_build(progress.state, arm.id, asked)
        if limit is not None and limit.seconds <= 0:
            yield from session.leave_out(arm.id, build_limits.leave_out(limit))
            continue
        yield from session.build(arm.id, limit)
        if arm == baseline and not session.is_running(arm.id):
            raise _cannot_begin(progress.state, arm.id)


def _process_number(state: RunState, arm: str) -> int:
    return len(state.processes.get(arm, ()))


def has_reference(state: RunState) -> bool:
    """Say whether inputs and right outputs are there; whatever became of the worker afterwards, it was asked only for extras."""
    return any(process.ready for process in state.processes.get(REFERENCE, ()))


def _cannot_begin(state: RunState, arm: str) -> UserError:
    """Say why there is nothing to compare with: the model cannot be opened, or eager PyTorch cannot run it."""
    outcome = state.processes[arm][-1].outcome
    reason, fix = getattr(outcome, "reason", "it ended"), getattr(outcome, "fix", None)
    if isinstance(outcome, ModelRefused):
        return ModelRefusedError(reason, fix or "open the model by itself in the same interpreter")
    return NothingViableError(
        f"the {arm} cannot be had: {reason}", fix or "choose another precision, size or device"
    )
