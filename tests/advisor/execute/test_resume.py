"""A killed run leaves no process behind, and a resumed run measures nothing again.

One run is killed at each of `MOMENTS` in turn and resumed each time.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import builders
import psutil
import pytest
import sessions

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide.decision import decide
from advisor.decide.rounds import has_reference
from advisor.domain.plan import BASELINE, REFERENCE
from advisor.domain.run_events import (
    LoggedEvent,
    RaceClosed,
    RunEvent,
    WorkerEnded,
    WorkerSpawned,
)
from advisor.errors import NotWritableError
from advisor.execute.execution import execute
from advisor.execute.remaining import newest_resumable
from advisor.probing.session import Session
from advisor.probing.worker_process import Worker
from advisor.store import decoders
from advisor.store.runs import Run
from probes.wire.events import BlockTimed, PhaseStarted
from probes.wire.outcome import Failure, Outcome

pytestmark = pytest.mark.slow

DRIVER = pathlib.Path(__file__).parents[2] / "fakes" / "drive.py"
WORKFLOWS = "quick,alike,misbehaving/raises"


def has_phase(phase: str) -> Callable[[LoggedEvent], bool]:
    def matches(event: LoggedEvent) -> bool:
        reported = sessions.worker_event_of(event)
        return isinstance(reported, PhaseStarted) and reported.phase == phase

    return matches


def has_visit(number: int, batch_size: int) -> Callable[[LoggedEvent], bool]:
    def matches(event: LoggedEvent) -> bool:
        reported = sessions.worker_event_of(event)
        return isinstance(reported, BlockTimed) and (reported.round, reported.shape.batch_size) == (
            number,
            batch_size,
        )

    return matches


#: The event at which the run is killed, in the order of a run.
MOMENTS: dict[str, Callable[[LoggedEvent], bool]] = {
    "importing": has_phase("import"),
    "building": has_phase("build"),
    "checking": has_phase("correctness"),
    "warming up": has_phase("warmup"),
    "third round": has_visit(3, 1),
    "between two batch sizes": lambda event: isinstance(event.run_event, RaceClosed),
    "second batch size": has_visit(2, 2),
    "ending": has_phase("done"),
}


@dataclasses.dataclass(frozen=True)
class KilledRun:
    """A finished run that was killed at each of `MOMENTS`."""

    run: Run
    #: Number of events stored at each kill.
    stored_events: dict[str, int]
    #: Processes of the run that were still alive five seconds after each kill.
    survivors: dict[str, list[str]]

    def split_at(self, moment: str) -> tuple[list[LoggedEvent], list[LoggedEvent]]:
        """Return the events before and after the kill."""
        events = self.run.events()
        return events[: self.stored_events[moment]], events[self.stored_events[moment] :]


@pytest.fixture(scope="module")
def killed_run(
    module_context: Context,
    module_home: pathlib.Path,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
) -> KilledRun:
    """A run that was killed at each of `MOMENTS` and then executed to its end."""
    paths = (DRIVER, module_home, fake_probes, fake_rubric)
    command = [sys.executable, *map(str, paths), WORKFLOWS]
    stored_events: dict[str, int] = {}
    survivors: dict[str, list[str]] = {}
    for moment, matches in MOMENTS.items():
        kill_at(matches, module_home, command)
        survivors[moment] = processes_alive_after(5.0, module_home)
        stored_events[moment] = len(newest_resumable(module_context.store).events())
    run = newest_resumable(module_context.store)
    sessions.exhaust(execute(run, module_context))
    return KilledRun(run, stored_events, survivors)


def kill_at(matches: Callable[[LoggedEvent], bool], home: pathlib.Path, command: list[str]) -> None:
    """Start or resume the run; kill its process at the first new event that matches."""
    _, offset = events_from(0, home)
    driver = subprocess.Popen(command)
    end = time.monotonic() + 240
    while True:
        new, offset = events_from(offset, home)
        if any(map(matches, new)):
            break
        assert driver.poll() is None, "the run ended before the moment to kill it"
        assert time.monotonic() < end
        time.sleep(0.01)
    driver.kill()
    driver.wait()


def events_from(offset: int, home: pathlib.Path) -> tuple[list[LoggedEvent], int]:
    """Return the complete lines of the run's events from a byte on, and the byte behind them."""
    for file in (home / "runs").glob("*/events.jsonl"):
        with file.open("rb") as lines:
            lines.seek(offset)
            text = lines.read()
        complete = text[: text.rfind(b"\n") + 1]
        events = [decoders.EVENTS.decode(line) for line in complete.splitlines()]
        return events, offset + len(complete)
    return [], offset


def processes_alive_after(seconds: float, home: pathlib.Path) -> list[str]:
    """Return the processes with `home` on their command line, once none is left or time is up."""
    end = time.monotonic() + seconds
    while alive := [
        str(process)
        for process in psutil.process_iter(["cmdline"])
        if any(str(home) in word for word in process.info["cmdline"] or ())
    ]:
        if time.monotonic() >= end:
            return alive
        time.sleep(0.02)
    return []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_leaves_no_process_and_repeats_nothing(
    killed_run: KilledRun, moment: str
) -> None:
    assert killed_run.survivors[moment] == []
    before, after = killed_run.split_at(moment)
    rounds = complete_rounds(after)
    assert complete_rounds(before).isdisjoint(rounds)
    closed = {event.run_event.shape for event in before if isinstance(event.run_event, RaceClosed)}
    assert {shape.batch_size for shape in closed}.isdisjoint(size for size, _ in rounds)
    ended = {event.run_event.arm for event in before if isinstance(event.run_event, WorkerEnded)}
    started = {event.run_event.arm for event in after if isinstance(event.run_event, WorkerSpawned)}
    assert ended.isdisjoint(started)


def test_a_resumed_run_is_finished_with_all_measurements(killed_run: KilledRun) -> None:
    answer = decide(killed_run.run)
    assert answer.recommendation is not None
    assert answer.finished
    assert {measurement.arm for measurement in answer.results.measurements} == {
        "pytorch-eager",
        "quick",
        "alike",
    }


def test_the_kills_cover_unfinished_races_and_ended_arms(killed_run: KilledRun) -> None:
    before, _ = killed_run.split_at("third round")
    assert complete_rounds(before) == {(1, 1), (1, 2)}
    assert any(isinstance(event.run_event, WorkerEnded) for event in before)
    before, _ = killed_run.split_at("second batch size")
    assert any(isinstance(event.run_event, RaceClosed) for event in before)


def complete_rounds(events: list[LoggedEvent]) -> set[tuple[int, int]]:
    """Return batch size and number of the rounds of the races that another round followed."""
    repeated = {
        (event.run_event.arm, event.run_event.process)
        for event in events
        if isinstance(event.run_event, WorkerSpawned) and event.run_event.repeat
    }
    rounds = [
        (block.shape.batch_size, block.round)
        for report, block in sessions.reports_of(events, BlockTimed)
        if (report.arm, report.process) not in repeated
    ]
    return {one for one, two in itertools.pairwise(rounds) if one != two}


def test_the_reference_is_stored_when_its_worker_has_ended_without_a_failure() -> None:
    too_long = Outcome(Failure("timed-out", phase="correctness", reason="it took too long"))
    assert has_reference(builders.run_state({REFERENCE: builders.process(outcome=Outcome())}))
    assert not has_reference(builders.run_state({REFERENCE: builders.process(outcome=too_long)}))
    assert not has_reference(builders.run_state({REFERENCE: builders.process(outcome=None)}))
    assert not has_reference(builders.run_state({}))


def test_a_run_whose_disk_was_full_is_measured_when_it_is_resumed(
    fake_context: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = fake_context()

    def fill_disk(session: Session, worker: Worker, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        del deferred
        yield from session.drop(
            worker.arm, Failure("disk-full", phase="build", reason="no space is left")
        )

    with monkeypatch.context() as full_disk:
        full_disk.setattr(Session, "_build", fill_disk)
        with pytest.raises(NotWritableError):
            sessions.execute_run(
                context, Answers(batch_sizes="2", budget="1", all_arms=True, workflows="quick")
            )
    run = newest_resumable(context.store)
    sessions.exhaust(execute(run, context))
    answer = decide(run)
    assert answer.problem is None
    assert {BASELINE, "quick"} <= {each.arm for each in answer.results.measurements}
