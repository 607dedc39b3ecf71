"""The clock of a worker against the supervisor's, over the visits of a process."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from sessions import QUICK, outcomes_by_arm, start_workers

from advisor.probing.run_config import RunConfig
from advisor.probing.session import WorkerSession
from advisor.probing.worker_process import ClockComparison
from probes.wire.shape import Shape

#: Seconds from a token to the first call, of the calls, and from the last call to the report.
BEFORE, CALLS, AFTER = 0.003, 0.2, 0.002


def compare(clock: Callable[[float], float], visits: int = 3) -> float:
    """Return the contradiction after visits that begin every second."""
    clocks = ClockComparison()
    for sent in range(1, visits + 1):
        began = sent + BEFORE
        ended = began + CALLS
        clocks.add_visit(clock(began), clock(ended), sent, ended + AFTER)
    return clocks.contradiction_seconds


@pytest.mark.parametrize("origin", [0.0, -1e6, 1e6])
def test_a_clock_with_another_origin_agrees(origin: float) -> None:
    assert compare(lambda now: now + origin) == 0.0


@pytest.mark.parametrize("speed", [0.0, 0.5, 0.9, 1.1, 2.0])
def test_a_clock_at_another_speed_contradicts(speed: float) -> None:
    assert compare(lambda now: speed * now) > 0.1


def test_a_fast_clock_is_found_in_one_visit() -> None:
    assert compare(lambda now: 2 * now, visits=1) == pytest.approx(CALLS - BEFORE - AFTER)


def test_without_a_visit_nothing_contradicts() -> None:
    assert ClockComparison().contradiction_seconds == 0.0


def test_the_clock_of_a_paused_run_is_not_compared(run_config: RunConfig) -> None:
    """The clock of the deadlines stops while a run is paused; here it never runs."""
    with WorkerSession(run_config, clock=lambda: 0.0) as session:
        start_workers(session, QUICK)
        list(session.build("quick"))
        for number in (1, 2):
            assert not outcomes_by_arm(session.visit("quick", Shape(2), number))
            time.sleep(0.1)
        assert session.last_visit("quick") is not None
