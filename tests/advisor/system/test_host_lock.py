"""Turns of races that share a host: who times lets others time, who builds has it alone, and waiting costs no time of the race."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Iterator

import pytest

from advisor.system.host_lock import HostLock


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "turns"


def enters(turns: HostLock, kind: str, *, meanwhile: threading.Event) -> threading.Thread:
    """Take a turn from another thread and say when it has begun."""

    def take() -> None:
        with getattr(turns, kind)():
            meanwhile.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread


def test_those_who_time_do_so_together(file: pathlib.Path) -> None:
    begun = threading.Event()
    with HostLock(file).timing():
        enters(HostLock(file), "timing", meanwhile=begun).join()
    assert begun.is_set()


@pytest.mark.parametrize(
    ("first", "second"), [("timing", "working"), ("working", "timing"), ("working", "working")]
)
def test_a_build_overlaps_nothing_of_another_race(
    file: pathlib.Path, first: str, second: str
) -> None:
    begun = threading.Event()
    with getattr(HostLock(file), first)():
        waiting = enters(HostLock(file), second, meanwhile=begun)
        assert not begun.wait(0.2)
    waiting.join()
    assert begun.is_set()


def test_whoever_works_gets_in_among_others_who_time_without_a_gap(file: pathlib.Path) -> None:
    over, begun, timed = threading.Event(), threading.Event(), threading.Semaphore(0)

    def time_again_and_again() -> None:
        while not over.is_set():
            with HostLock(file).timing():
                timed.release()
                time.sleep(0.05)

    neighbours = [threading.Thread(target=time_again_and_again, daemon=True) for _ in range(3)]
    for neighbour in neighbours:
        neighbour.start()
        time.sleep(0.02)
        assert timed.acquire(timeout=10)
    enters(HostLock(file), "working", meanwhile=begun)
    got_in = begun.wait(5)
    over.set()
    for neighbour in neighbours:
        neighbour.join()
    assert got_in


def test_the_clock_stands_still_while_a_race_waits(file: pathlib.Path) -> None:
    ticks: Iterator[float] = iter([0.0, 100.0, 100.0])
    turns = HostLock(file, lambda: next(ticks))
    with turns.working():
        assert turns.clock() == 0.0


def test_a_race_that_is_alone_waits_for_nobody() -> None:
    turns = HostLock()
    with turns.working(), turns.working():
        pass
