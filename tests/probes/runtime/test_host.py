"""The speed of the host, and the move to a processor on which it is fast."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping

import pytest
from fake_clock import FakeClock, replace_clocks

from probes.runtime import host
from probes.runtime.host import Host

FAST, SLOW = 1e-5, 2e-5


@dataclasses.dataclass
class Processors:
    """Four processors, of which the thread runs on one; each launch takes its seconds."""

    clock: FakeClock
    seconds: Mapping[int, float]
    current: int = 0
    allowed: Collection[int] = (0, 1, 2, 3)

    def launch(self) -> None:
        self.clock.advance(self.seconds[self.current])

    def allow(self, _: int, processors: Collection[int]) -> None:
        self.allowed = set(processors)
        if self.current not in processors:
            self.current = min(processors)


@pytest.fixture
def processors(monkeypatch: pytest.MonkeyPatch) -> Processors:
    clock = FakeClock()
    found = Processors(clock, {0: SLOW, 1: SLOW, 2: FAST, 3: SLOW})
    replace_clocks(monkeypatch, host, clock)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(found.allowed))
    monkeypatch.setattr(os, "sched_setaffinity", found.allow)
    return found


def test_one_interruption_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = FakeClock(), iter([0.001, 0.001] * 30 + [0.0] * 30 + [9.0] + [0.0] * 29)
    replace_clocks(monkeypatch, host, clock)
    assert host.time_host(lambda: clock.advance(next(pauses))) == pytest.approx(0.03)


def test_the_thread_moves_to_the_fastest_processor_and_may_use_all_again(
    processors: Processors,
) -> None:
    Host(processors.launch).settle()
    assert processors.current == 2
    assert processors.allowed == {0, 1, 2, 3}


def test_a_fast_processor_is_kept_and_a_slow_one_left(processors: Processors) -> None:
    measured = Host(processors.launch)
    measured.settle()
    processors.seconds = {0: FAST / 1.05, 1: SLOW, 2: FAST, 3: FAST}
    measured.settle()
    assert processors.current == 2
    processors.seconds = {0: SLOW, 1: SLOW, 2: SLOW, 3: FAST}
    measured.settle()
    assert processors.current == 3


def test_without_a_fast_processor_the_least_slow_one_is_used(processors: Processors) -> None:
    measured = Host(processors.launch)
    measured.settle()
    processors.seconds = {0: 3 * SLOW, 1: SLOW, 2: 2 * SLOW, 3: 4 * SLOW}
    measured.settle()
    assert processors.current == 1


def test_a_slowdown_shows_in_the_same_work_after_the_calls(processors: Processors) -> None:
    measured = Host(processors.launch)
    measured.settle()
    assert measured.slowdown() == pytest.approx(1.0)
    processors.seconds = {2: 1.5 * FAST}
    assert measured.slowdown() == pytest.approx(1.5)


def test_on_a_cpu_the_thread_stays(processors: Processors) -> None:
    measured = Host(None)
    measured.settle()
    assert measured.slowdown() is None
    assert processors.current == 0
    assert host.find_launch() is None


def test_where_it_may_not_move_the_thread_stays(
    processors: Processors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, __: Collection[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    measured = Host(processors.launch)
    measured.settle()
    assert measured.slowdown() == pytest.approx(1.0)
    assert processors.current == 0
