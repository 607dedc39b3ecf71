"""Run the stages of a run in their order.

Yields events; prints nothing and exits nowhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import threading
from collections.abc import Collection, Generator, Iterator

import msgspec

from advisor.ask.context import Context
from advisor.decide.answers import answer_from_state
from advisor.domain import errors
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.run_events import Finished, LoggedEvent, ProvisionalAnswer, Resumed, RunEvent
from advisor.domain.run_state import Header, RunState
from advisor.execute import building, post_race, racing, remaining, repetitions, servers, starts
from advisor.execute.active_run import ActiveRun, Recorder, TimeSpan
from advisor.execute.build_rules import builds_are_over
from advisor.execute.quiet import activity_reader, wait_until_quiet
from advisor.probing.bytecode import compiled_bytecode
from advisor.probing.conditions import ConditionsMonitor, GpuMonitor
from advisor.probing.device_memory import DeviceMemoryMonitor
from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.probing.side_by_side import SideBySideBuilds
from advisor.store.runs import Run
from advisor.store.store import LATEST, Store


def refuse_foreign(header: Header) -> None:
    """Raise an error for a run that others may have written: nothing that it names is executed."""
    if header.foreign:
        raise errors.ForeignRunError(
            f"run {header.run_id} was imported or is outside the program's store, so nothing of it "
            "is executed",
            f"read its code with p3-advisor recipe {header.run_id}, or measure here with "
            "p3-advisor recommend",
        )


def execute(
    run: Run, context: Context, wait_seconds: float | None = None, to_skip: Collection[str] = ()
) -> Iterator[LoggedEvent]:
    """Execute the remaining steps of the run; yield each event after it is stored.

    If the run has finished and its decision is not CLEAR, its leaders are measured again in fresh
    processes, from the builds that were kept. `wait_seconds` is how long the run may wait for a
    quiet machine, by default what its question says. `to_skip` are the arms that the user skips
    before they start; a thread may add some. Raise the `UserError` that ends the run early.
    """
    header = run.header()
    refuse_foreign(header)
    if wait_seconds is not None:
        question = msgspec.structs.replace(header.question, wait_seconds=wait_seconds)
        header = msgspec.structs.replace(header, question=question)
    with run.writer() as writer:
        recorder = Recorder(run.state(), context.clock, writer.append)
        if not recorder.state.finished or keeps_builds(answer_from_state(header, recorder.state)):
            if recorder.state.finished and not run.scratch.is_dir():
                raise errors.BuildsAreGoneError(
                    f"the builds of run {header.run_id} were removed",
                    "ask again: the newest run without a clear answer keeps its builds",
                )
            steps = _execute_steps(run, header, recorder, context, to_skip)
            with contextlib.closing(steps):  # the workers end before the run is free for others
                yield from recorder.record_each(steps)
        if not recorder.state.finished:
            return
        if keeps_builds(answer_from_state(header, recorder.state)):
            run.clear_scratch_of_others()
        else:
            run.clear_scratch()


def drop_refused(run: Run, context: Context) -> bool:
    """Delete a run without a measurement whose model was refused, as it would be again.

    Return whether it was deleted.
    """
    state = run.state()
    is_refused = isinstance(state.early_error, (errors.ModelRefusedError, errors.ModelCallError))
    if not is_refused or state.has_raced or run.is_active():
        return False
    context.store.delete(run.directory.name)
    return True


def newest_resumable(store: Store) -> Run:
    """Return the newest run that can go on, or the newest unfinished one if none can.

    Without an unfinished run of this machine it is `latest`, which may have no clear answer. Raise
    `UnknownRunError` if no run is stored.
    """
    newest: Run | None = None
    for run, state in store.resumable_runs():
        if state.can_go_on:
            return run
        newest = newest or run
    return newest or store.find(LATEST)


def keeps_builds(answer: Answer) -> bool:
    """Return whether the run has finished without a clear answer, and could measure more."""
    if not answer.finished or answer.question.serves:
        return False
    if answer.recommendation is None:
        return answer.has_unfit_problem
    return answer.recommendation.decision.word in {"LIKELY", "OPEN"}


def _execute_steps(
    run: Run, header: Header, recorder: Recorder, context: Context, to_skip: Collection[str]
) -> Generator[RunEvent, None, None]:
    """Yield events that are not recorded yet, as all stages do: they are before the next step."""
    is_further = recorder.state.finished
    if recorder.state.processes:
        yield Resumed()
    question = header.question
    read = activity_reader(header.machine, question.gpus, context)
    limits = header.catalogue.presets.quiet
    yield from wait_until_quiet(read, limits, question.wait_seconds, context.clock)
    gpus, processors = question.gpus, header.machine.cpu.usable_processors
    monitor = ConditionsMonitor([GpuMonitor(gpu) for gpu in gpus])
    memory_monitor = DeviceMemoryMonitor(gpus) if gpus else None
    with (
        compiled_bytecode(
            question.python, context.probes, context.environment, processors
        ) as bytecode,
        monitor.running(),
        WorkerSession(
            dataclasses.replace(run_config_of(run, header, context), bytecode=bytecode),
            monitor,
            memory_monitor,
            context.clock,
        ) as session,
    ):
        time = TimeSpan(context.clock, context.clock(), question.seconds)
        if question.load is not None:
            yield from servers.measure_servers(session, recorder, question.load, time)
            yield Finished()
            return
        # The first decision needs it and would wait for it, while builds are suspended.
        threading.Thread(target=importlib.import_module, args=("scipy.special",)).start()
        active = ActiveRun(
            session=session,
            recorder=recorder,
            header=header,
            store=context.store,
            time=time,
            builds_at_once=building.builds_at_once(header),
            answer_of=functools.partial(answer_from_state, header, while_running=True),
            to_skip=to_skip,
        )
        if not is_further:
            yield from _race_and_measure_further(active)
            yield from session.stop()
        yield from repetitions.repeat_arms(active, is_further=is_further)
    if question.cold_start:
        yield from starts.measure_starts(active)
    yield Finished()


def _race_and_measure_further(active: ActiveRun) -> Iterator[RunEvent]:
    """Race all arms, then those that the run itself adds."""
    arms = active.state.plan.arms
    repeated = repetitions.order_repetitions(arms) if active.question.budget.repeats else ()
    # Few builds get more processors each.
    builds = SideBySideBuilds(active.pool, min(active.builds_at_once, len(arms)), repeated)
    while True:
        yield from _race_groups(active, builds)
        yield from active.session.finish_reference()
        yield from post_race.measure_further(active)
        added = remaining.arms_to_add(active)
        if builds_are_over(active) or not added:
            return
        yield from added
        # New shapes may have broken the programs of those that tried some.
        yield from active.session.stop()


def _race_groups(active: ActiveRun, builds: SideBySideBuilds) -> Iterator[RunEvent]:
    """Build and race until every arm has raced, no further arm fits, or the time is over.

    An arm races as soon as it is built; the builds of others are suspended meanwhile.
    """
    pool, header, question = active.pool, active.header, active.question
    while True:
        before = active.state
        yield from building.build_group(active, builds)
        if builds_are_over(active):
            yield from building.end_builds(active, builds)
        else:
            yield from remaining.arms_to_add(active)
        yield from racing.race_shapes(active)
        waiting = remaining.waiting_arms(active.state, question)
        # These differ as soon as a race was opened or closed.
        races, races_before = ((each.groups, each.closed) for each in (active.state, before))
        has_raced = races != races_before
        waited = remaining.waiting_arms(before, question)
        has_advanced = has_raced or builds.running or waiting != waited
        # An answer that users see, or that leaves arms out, is decided as at the end: unlike
        # `active.answer`, it has no advice where equal workers differ so that nothing is decided.
        answer = answer_from_state(header, active.state)
        if has_raced and answer.recommendation is not None:
            yield answer_so_far(answer, active.state)
        if not waiting or not has_advanced or not pool.is_running(active.state.plan.baseline.id):
            return
        hopeless = remaining.arms_that_cannot_lead(answer, header.catalogue)
        yield from building.drop_unbuilt(active, builds, hopeless)
        if not pool.headroom.fits_another_worker() or waiting & remaining.oom_beside_others(
            active.state
        ):
            yield from post_race.free_memory(active)


def run_config_of(run: Run, header: Header, context: Context) -> RunConfig:
    return RunConfig(
        header=header,
        arms_directory=run.arms,
        scratch_directory=run.scratch,
        probes_directory=context.probes,
        environment=context.environment,
    )


def answer_so_far(answer: Answer, state: RunState) -> ProvisionalAnswer:
    waiting = remaining.waiting_arms(state, answer.question)
    return ProvisionalAnswer(
        answer=AnswerSummary.of(answer),
        waiting=tuple(each.id for each in state.plan.arms if each.id in waiting),
    )
