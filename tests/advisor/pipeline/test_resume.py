"""A run that is killed loses nothing: no process stays behind, and what was measured is not measured again."""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import builders
import psutil
import pytest

from advisor.context import Context
from advisor.domain.outcome import TimedOut
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import Ended, LoggedEvent, RaceClosed, Spawned, WorkerReported
from advisor.domain.worker_events import BlockTimed, PhaseStarted
from advisor.pipeline.decision import decide
from advisor.pipeline.execution import execute, has_reference
from advisor.store import Run, Store

DRIVER = pathlib.Path(__file__).parents[2] / "fakes" / "drive.py"
WORKFLOWS = "quick,alike,misbehaving/raises"


def is_in_phase(phase: str) -> Callable[[LoggedEvent], bool]:
    def matches(event: LoggedEvent) -> bool:
        said = event.run_event.said if isinstance(event.run_event, WorkerReported) else None
        return isinstance(said, PhaseStarted) and said.phase == phase

    return matches


def is_visit(number: int, batch_size: int) -> Callable[[LoggedEvent], bool]:
    def matches(event: LoggedEvent) -> bool:
        said = event.run_event.said if isinstance(event.run_event, WorkerReported) else None
        return (
            isinstance(said, BlockTimed) and said.round == number and said.batch_size == batch_size
        )

    return matches


MOMENTS = {
    "while importing": is_in_phase("import"),
    "while building": is_in_phase("build"),
    "while checking": is_in_phase("correctness"),
    "while warming up": is_in_phase("warmup"),
    "in the third round": is_visit(3, 1),
    "between two batch sizes": lambda event: isinstance(event.run_event, RaceClosed),
    "in the second batch size": is_visit(2, 2),
    "while ending": is_in_phase("done"),
}


def processes_of(home: pathlib.Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(home) in word for word in process.info["cmdline"] or ())
    ]


def events_so_far(home: pathlib.Path) -> Iterator[LoggedEvent]:
    for directory in (home / "runs").glob("*"):
        yield from Run(directory).events()


def kill_at(
    moment: Callable[[LoggedEvent], bool],
    home: pathlib.Path,
    probes: pathlib.Path,
    rubric: pathlib.Path,
) -> None:
    """Start a run and kill its process, with no chance to tidy up, when `moment` has come."""
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), str(home), str(probes), str(rubric), WORKFLOWS]
    )
    end = time.monotonic() + 240
    while not any(moment(event) for event in events_so_far(home)):
        assert driver.poll() is None, "the run ended before the moment to kill it"
        assert time.monotonic() < end
        time.sleep(0.005)
    driver.kill()
    driver.wait()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_leaves_no_process_and_goes_on(
    moment: str,
    home: pathlib.Path,
    fake_probes: pathlib.Path,
    fake_rubric: pathlib.Path,
    fake_world: Callable[[], Context],
) -> None:
    kill_at(MOMENTS[moment], home, fake_probes, fake_rubric)
    end = time.monotonic() + 5
    while processes_of(home) and time.monotonic() < end:
        time.sleep(0.02)
    assert processes_of(home) == []

    run = Store(home).unfinished()
    before = run.events()
    for _ in execute(run, fake_world()):
        pass
    after = run.events()[len(before) :]
    decision = decide(run)
    assert decision.recommendation is not None
    assert decision.state.finished
    assert {measurement.arm for measurement in decision.results.measurements} == {
        "pytorch-eager",
        "quick",
        "alike",
    }

    done = complete_rounds(before)
    assert not done & complete_rounds(after), "a round that was complete was measured again"
    closed = {
        event.run_event.batch_size for event in before if isinstance(event.run_event, RaceClosed)
    }
    assert closed.isdisjoint(size for size, _ in complete_rounds(after))
    ended = {event.run_event.arm for event in before if isinstance(event.run_event, Ended)}
    started_again = {event.run_event.arm for event in after if isinstance(event.run_event, Spawned)}
    assert ended.isdisjoint(started_again), "an arm that had its outcome was tried again"


def complete_rounds(events: list[LoggedEvent]) -> set[tuple[int, int]]:
    """Return batch size and number of the rounds after which another one began."""
    rounds = [
        (event.run_event.said.batch_size, event.run_event.said.round)
        for event in events
        if isinstance(event.run_event, WorkerReported)
        and isinstance(event.run_event.said, BlockTimed)
    ]
    return {one for one, two in itertools.pairwise(rounds) if one != two}


def test_right_outputs_are_there_whatever_becomes_of_who_made_them() -> None:
    too_long = TimedOut(phase="measure", reason="the peaks took too long")
    assert has_reference(builders.run_state({REFERENCE: builders.process(outcome=too_long)}))
    assert not has_reference(
        builders.run_state({REFERENCE: builders.process(ready=False, outcome=too_long)})
    )
    assert not has_reference(builders.run_state({}))
