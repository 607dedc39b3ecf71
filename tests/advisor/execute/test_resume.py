"""A stopped run is resumed: what remains of it, and nothing is repeated."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import builders
import pytest
import recorded_runs
import sessions
import workers

from advisor.ask.context import Context
from advisor.domain.errors import NotWritableError
from advisor.domain.plan import EAGER, REFERENCE
from advisor.domain.run_events import (
    ArmsPlanned,
    LoggedEvent,
    RaceClosed,
    RunEvent,
    WorkerEnded,
    WorkerSpawned,
)
from advisor.execute import building, remaining
from advisor.execute.active_run import Recorder
from advisor.execute.execution import drop_refused, execute, newest_resumable
from advisor.probing import session as probing_session
from advisor.probing.session import WorkerSession
from advisor.report.answer_files import answer_of_run
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.events import Event, PhaseStarted, Visited
from probes.outcome import Failure, Outcome
from probes.shape import Shape

DRIVER = pathlib.Path(__file__).parents[2] / "fakes" / "drive.py"
WORKFLOWS = "quick,alike,misbehaving/raises"


def reports(kind: type[Event], **fields: object) -> Callable[[LoggedEvent], bool]:
    """Return a function that finds the event with which a worker reports these fields."""

    def matches(event: LoggedEvent) -> bool:
        reported = sessions.worker_event_of(event)
        return isinstance(reported, kind) and fields.items() <= vars(reported).items()

    return matches


#: The event at which the run is killed, in the order of a run.
MOMENTS: dict[str, Callable[[LoggedEvent], bool]] = {
    "building": reports(PhaseStarted, phase="build"),
    "checking": reports(PhaseStarted, phase="correctness"),
    "third round": reports(Visited, round=3, shape=Shape(1)),
    "between two batch sizes": lambda event: isinstance(event.run_event, RaceClosed),
    "second batch size": reports(Visited, round=2, shape=Shape(2)),
    "ending": reports(PhaseStarted, phase="done"),
}
#: A run, and the number of events stored at each kill.
KilledRun = tuple[Run, dict[str, int]]


@pytest.fixture(scope="module")
def killed_run(
    module_context: Context,
    module_home: pathlib.Path,
    fake_probes: pathlib.Path,
    fake_catalogue: pathlib.Path,
) -> KilledRun:
    """A run that was killed at each of `MOMENTS` and then executed to its end."""
    paths = (DRIVER, module_home, fake_probes, fake_catalogue)
    command = [sys.executable, *map(str, paths), WORKFLOWS]
    stored_events: dict[str, int] = {}
    for moment, matches in MOMENTS.items():
        kill_at(matches, module_home, command)
        stored_events[moment] = len(newest_resumable(module_context.store).events())
    run = newest_resumable(module_context.store)
    sessions.exhaust(execute(run, module_context))
    return run, stored_events


def split_at(moment: str, killed_run: KilledRun) -> tuple[list[LoggedEvent], list[LoggedEvent]]:
    """Return the events before and after the kill."""
    run, stored_events = killed_run
    return run.events()[: stored_events[moment]], run.events()[stored_events[moment] :]


def kill_at(matches: Callable[[LoggedEvent], bool], home: pathlib.Path, command: list[str]) -> None:
    """Start or resume the run; kill its process at the first new event that matches.

    No process of the run may be left afterwards.
    """
    _, offset = events_from(0, home)

    def is_reached() -> bool:
        nonlocal offset
        new, offset = events_from(offset, home)
        found = any(map(matches, new))
        assert found or driver.poll() is None, "the run ended before the moment to kill it"
        return found

    with workers.mark_processes(str(home)) as environment:
        with subprocess.Popen(command, env=environment) as driver:
            workers.wait_until(is_reached, 240)
            driver.kill()
        workers.wait_until(lambda: not workers.find_marked(str(home)))


def events_from(offset: int, home: pathlib.Path) -> tuple[list[LoggedEvent], int]:
    """Return the complete events of the run from a byte on, and the byte behind them."""
    for file in (home / "runs").glob("*/events.jsonl"):
        return Run(file.parent).read_events_after(offset)
    return [], offset


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_repeats_nothing(killed_run: KilledRun, moment: str) -> None:
    before, after = split_at(moment, killed_run)
    rounds = complete_rounds(after)
    assert complete_rounds(before).isdisjoint(rounds)
    closed = {each.shape.batch_size for each in sessions.of_kind(before, RaceClosed)}
    assert closed.isdisjoint(size for size, _ in rounds)
    ended = {each.arm for each in sessions.of_kind(before, WorkerEnded)}
    assert ended.isdisjoint(each.arm for each in sessions.of_kind(after, WorkerSpawned))


def test_a_resumed_run_is_finished_with_all_measurements(killed_run: KilledRun) -> None:
    answer = answer_of_run(killed_run[0])
    assert answer.recommendation is not None
    assert answer.finished
    assert set(answer.results.by_arm) == {"pytorch-eager", "quick", "alike"}


def test_the_kills_cover_unfinished_races_and_ended_arms(killed_run: KilledRun) -> None:
    before, _ = split_at("third round", killed_run)
    assert complete_rounds(before) == {(1, 1), (1, 2)}
    assert sessions.of_kind(before, WorkerEnded)
    before, _ = split_at("second batch size", killed_run)
    assert sessions.of_kind(before, RaceClosed)


def complete_rounds(events: list[LoggedEvent]) -> set[tuple[int, int]]:
    """Return batch size and number of the rounds of the races that another round followed."""
    spawned = sessions.of_kind(events, WorkerSpawned)
    repeated = {(each.arm, each.process) for each in spawned if each.repeat}
    rounds = [
        (block.shape.batch_size, block.round)
        for report, block in sessions.reports_of(events, Visited)
        if (report.arm, report.process) not in repeated
    ]
    return {one for one, two in itertools.pairwise(rounds) if one != two}


@pytest.mark.slow
def test_a_run_whose_disk_was_full_is_measured_when_it_is_resumed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fill_disk(session: WorkerSession, arm: str, *_: object) -> Iterator[RunEvent]:
        full = Failure("disk-full", phase="build", reason="no space is left")
        yield from session.pool.drop(arm, full)

    with monkeypatch.context() as full_disk:
        full_disk.setattr(WorkerSession, "build", fill_disk)
        with pytest.raises(NotWritableError):
            sessions.execute_run(context, sessions.short_options("quick"))
    run = newest_resumable(context.store)
    sessions.exhaust(execute(run, context))
    answer = answer_of_run(run)
    assert answer.problem is None
    assert {EAGER, "quick"} <= set(answer.results.by_arm)


#: Milliseconds of the calls of two workflows at batch sizes 1 and 2: each is best at one of them.
CROSSED_MILLISECONDS = {"quick": (1, 3), "alike": (3, 1)}


def test_all_leaders_but_one_are_stopped_for_arms_that_wait(
    own_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds run out of memory, and are tried again with fewer arms at once."""
    for name, (at_one, at_two) in CROSSED_MILLISECONDS.items():
        seconds = f"({at_one} if len(inputs[0]) == 1 else {at_two}) / 1000"
        file = own_context.probes / "workflows" / f"{name}.py"
        file.write_text(
            f"{file.read_text()}\n"
            "def build(subject, inputs, request):\n"
            f"    return Program(subject, {seconds})\n"
        )
    memory = sessions.LimitedMemory(4)
    fits_another_worker = memory.fits_another_worker

    real_build = WorkerSession.build

    def build(session: WorkerSession, arm: str, *limits: Any, **end: Any) -> Iterator[RunEvent]:
        if fits_another_worker():
            yield from real_build(session, arm, *limits, **end)
        else:
            full = Failure("out-of-memory", phase="build", reason="the memory is full")
            yield from session.pool.drop(arm, full)

    monkeypatch.setattr(building, "builds_at_once", lambda _: 1)
    monkeypatch.setattr(probing_session, "MemoryHeadroom", lambda _: memory)
    monkeypatch.setattr(WorkerSession, "build", build)
    # The session finds out that memory is short only when the build fails.
    monkeypatch.setattr(memory, "fits_another_worker", lambda *_: True)
    asked = sessions.short_options("quick,alike,narrow/served,narrow/slow", batch_sizes="1,2")
    run = sessions.execute_run(own_context, asked)
    results, state = answer_of_run(run).results, run.state()
    arms = {EAGER, "quick", "alike", "narrow/served", "narrow/slow"}
    assert {measurement.arm for measurement in results.measurements} == arms
    assert {race.shape.batch_size: race.best for race in results.races} == {1: "quick", 2: "alike"}
    leaders = [set(group.arms) & set(CROSSED_MILLISECONDS) for group in state.groups[Shape(1)]]
    assert list(map(len, leaders)) == [2, 1, 1]
    started = tuple(
        sum(process.repeat == 0 for process in state.processes[arm])
        for arm in ("narrow/served", "narrow/slow")
    )
    assert started == (2, 3)


@pytest.mark.parametrize(
    ("residents", "is_tried_again"), [(("one",), False), (("one", "two"), True)]
)
def test_an_arm_that_ran_out_of_memory_beside_several_arms_is_tried_again(
    residents: tuple[str, ...], *, is_tried_again: bool
) -> None:
    outcome = Failure("out-of-memory", phase="build", reason="the memory is full")
    built = builders.process(*builders.visits([0.4]))
    ready = (EAGER, builders.DUPLICATE, *residents)
    processes: dict[str, Any] = {**dict.fromkeys(ready, built), "big": ()}
    recorder = Recorder(builders.run_state(processes), clock=lambda: 0.0, store=lambda _: None)
    recorder.record(WorkerSpawned(arm="big", process=0))
    recorder.record(WorkerEnded(arm="big", process=0, outcome=Outcome(outcome)))
    state = recorder.state
    assert remaining.oom_beside_others(state) == ({"big"} if is_tried_again else set())
    assert "big" in state.failed_arms
    retried = {**state.processes, "big": (*state.processes["big"], built)}
    assert "big" not in builders.replace(state, processes=retried).failed_arms


REFUSED = Outcome(Failure("model-refused", phase="open", reason="it has no weights"))
FULL = Outcome(Failure("disk-full", phase="open", reason="the disk is full"))


def make_run(home: pathlib.Path, run_id: str, outcome: Outcome | None = None) -> Run:
    """Store an unfinished run, whose reference ended with `outcome` if that is given."""
    run_events: list[RunEvent] = [ArmsPlanned(plan=builders.plan("compiled"))]
    if outcome is not None:
        run_events += [
            WorkerSpawned(arm=REFERENCE, process=0),
            WorkerEnded(arm=REFERENCE, process=0, outcome=outcome),
        ]
    return recorded_runs.make_planned_run(home, run_id, *builders.events(*run_events))


@pytest.mark.parametrize(
    ("older", "newer", "chosen"),
    [
        (None, None, "newer"),
        (None, REFUSED, "older"),
        (REFUSED, None, "newer"),
        (REFUSED, REFUSED, "newer"),
        (None, FULL, "newer"),
    ],
)
def test_a_run_with_a_failed_model_is_chosen_only_if_no_other_can_go_on(
    older: Outcome | None, newer: Outcome | None, chosen: str, home: pathlib.Path
) -> None:
    ids = {"older": "20261121-000000-0000", "newer": "20261122-000000-0000"}
    make_run(home, ids["older"], older)
    make_run(home, ids["newer"], newer)
    assert newest_resumable(Store(home)).directory.name == ids[chosen]


@pytest.mark.parametrize(("outcome", "resumable"), [(None, True), (REFUSED, False), (FULL, True)])
def test_a_run_whose_model_was_refused_is_not_resumed_but_deleted(
    outcome: Outcome | None, resumable: bool, home: pathlib.Path
) -> None:
    run_id = "20261121-000000-0000"
    run = make_run(home, run_id, outcome)
    answer = answer_of_run(run)
    step = f"p3-advisor resume {run_id}" if resumable else builders.known(answer.problem).next_step
    assert (answer.finished, answer.resumable) == (False, resumable)
    assert {entry.fix for entry in answer.unmeasured if entry.arm == "compiled"} == {step}
    context = Context(environment={}, store=Store(home))
    with run.writer():
        assert not drop_refused(run, context)  # a process works on it
    assert drop_refused(run, context) is not resumable
    assert run.directory.exists() is resumable
