"""The speed of the host, and the move to a processor on which it is fast."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping

import pytest
from fake_clock import FakeClock

from probes import host
from probes.host import Host

FAST, SLOW = 1e-4, 2e-4


@dataclasses.dataclass
class Processors:
    """Four processors, of which the thread runs on one; each pass of the work takes its seconds."""

    clock: FakeClock
    seconds: Mapping[int, float]
    current: int = 0
    allowed: Collection[int] = (0, 1, 2, 3)

    def read_clock(self) -> float:
        self.clock.advance(self.seconds[self.current])
        return self.clock.perf_counter()

    def allow(self, _: int, processors: Collection[int]) -> None:
        self.allowed = set(processors)
        if self.current not in processors:
            self.current = min(processors)


@pytest.fixture
def processors(monkeypatch: pytest.MonkeyPatch) -> Processors:
    found = Processors(FakeClock(), {0: SLOW, 1: SLOW, 2: FAST, 3: SLOW})
    monkeypatch.setattr(host, "perf_counter", found.read_clock)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(found.allowed))
    monkeypatch.setattr(os, "sched_setaffinity", found.allow)
    return found


def test_one_interruption_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0.0, 9.0, 9.0, 9.25])
    monkeypatch.setattr(host, "perf_counter", lambda: next(readings))
    assert host.time_host() == 0.25


@pytest.mark.parametrize(
    ("seconds", "used"),
    [
        ((SLOW, SLOW, SLOW, FAST), 3),
        ((FAST, FAST, 1.1 * FAST, FAST), 2),
        ((3 * SLOW, SLOW, 2 * SLOW, 4 * SLOW), 1),
    ],
    ids=["moves", "stays", "without a fast one"],
)
def test_the_thread_moves_to_a_fast_processor_and_may_use_all_again(
    seconds: tuple[float, ...], used: int, processors: Processors
) -> None:
    measured = Host(1.3)
    measured.settle()
    processors.seconds = dict(enumerate(seconds))
    measured.settle()
    assert processors.current == used
    assert processors.allowed == {0, 1, 2, 3}


def test_a_slowdown_is_relative_to_the_fastest_work_so_far(processors: Processors) -> None:
    measured = Host(1.3)
    assert measured.slowdown() == pytest.approx(1.0)
    processors.current = 2
    assert measured.slowdown() == pytest.approx(1.0)
    processors.current = 3
    assert measured.slowdown() == pytest.approx(2.0)


def test_where_it_may_not_move_the_thread_stays(
    processors: Processors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, __: Collection[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    measured = Host(1.3)
    measured.settle()
    assert measured.slowdown() == pytest.approx(1.0)
    assert processors.current == 0
