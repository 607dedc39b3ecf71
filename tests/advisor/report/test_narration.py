"""What is told while a run goes on: one line for what a user waits for, none for the rest."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.outcome import Completed, Crashed
from advisor.domain.plan import REFERENCE
from advisor.domain.run_events import (
    DeviceMemory,
    Ended,
    Finished,
    Planned,
    RaceClosed,
    RaceOpened,
    Resumed,
    RunEvent,
    Spawned,
    WorkerReported,
)
from advisor.domain.worker_events import Phase, PhaseStarted, Ready
from advisor.report import narration


def tell(run_event: RunEvent) -> str | None:
    (event,) = builders.events(run_event)
    return narration.tell(event)


def entered(phase: Phase, batch_size: int | None = None, arm: str = "compiled") -> WorkerReported:
    return WorkerReported(arm=arm, process=0, said=PhaseStarted(phase=phase, batch_size=batch_size))


@pytest.mark.parametrize(
    ("run_event", "line"),
    [
        (
            Planned(plan=builders.plan("one", "two", excluded=[builders.excluded()])),
            "3 arms to measure, 1 workflows left out",
        ),
        (entered("import"), "compiled: import"),
        (entered("build", 16), "compiled: build, batch size 16"),
        (
            Ended(
                arm="compiled",
                process=0,
                outcome=Crashed(phase="build", signal="SIGSEGV", reason="it fell"),
            ),
            "compiled: crashed, it fell",
        ),
        (
            RaceOpened(batch_size=4, arms=("one", "two")),
            "measuring batch size 4: 2 processes in turn",
        ),
        (
            RaceClosed(batch_size=4, reason="the verdict stands: TIE"),
            "batch size 4: the verdict stands: TIE",
        ),
        (Resumed(), "going on where the run had stopped"),
        (Finished(), "done after 1 s"),
    ],
)
def test_what_a_user_waits_for_is_told_in_a_line(run_event: RunEvent, line: str) -> None:
    assert tell(run_event) == line


@pytest.mark.parametrize(
    "run_event",
    [
        Spawned(arm="compiled", process=0),
        entered("warmup", 1),
        entered("build", 1, arm=REFERENCE),
        WorkerReported(arm="compiled", process=0, said=Ready()),
        WorkerReported(arm="compiled", process=0, said=builders.visits([0.1])[0]),
        DeviceMemory(arm="compiled", process=0, before_bytes=1, peak_bytes=2, resident_bytes=2),
        Ended(arm="compiled", process=0, outcome=Completed()),
    ],
)
def test_what_passes_too_quickly_is_not_told(run_event: RunEvent) -> None:
    assert tell(run_event) is None


def test_a_reference_that_fails_is_told() -> None:
    line = tell(
        Ended(
            arm=REFERENCE, process=0, outcome=Crashed(phase="load", signal=None, reason="no memory")
        )
    )
    assert line == f"{REFERENCE}: crashed, no memory"
