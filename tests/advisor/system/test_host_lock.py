"""The lock of races that share a host: shared for timing, exclusive for builds."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Iterator

import pytest

from advisor.system.host_lock import HostLock


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "lock"


def hold_in_thread(lock: HostLock, kind: str, *, held: threading.Event) -> threading.Thread:
    """Hold the lock in another thread, and set the event as soon as it is held."""

    def hold() -> None:
        with getattr(lock, kind)():
            held.set()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return thread


def test_timed_sections_overlap(file: pathlib.Path) -> None:
    held = threading.Event()
    with HostLock(file).shared():
        hold_in_thread(HostLock(file), "shared", held=held)
        assert held.wait(10)


@pytest.mark.parametrize(
    ("first", "second"),
    [("shared", "exclusive"), ("exclusive", "shared"), ("exclusive", "exclusive")],
)
def test_a_build_overlaps_no_section_of_another_race(
    file: pathlib.Path, first: str, second: str
) -> None:
    held = threading.Event()
    with getattr(HostLock(file), first)():
        waiting = hold_in_thread(HostLock(file), second, held=held)
        assert not held.wait(0.2)
    waiting.join()
    assert held.is_set()


def test_overlapping_timed_sections_do_not_starve_a_build(file: pathlib.Path) -> None:
    stop, held, timed = threading.Event(), threading.Event(), threading.Semaphore(0)

    def time_repeatedly() -> None:
        while not stop.is_set():
            with HostLock(file).shared():
                timed.release()
                time.sleep(0.05)

    neighbours = [threading.Thread(target=time_repeatedly, daemon=True) for _ in range(3)]
    for neighbour in neighbours:
        neighbour.start()
        time.sleep(0.02)
        assert timed.acquire(timeout=10)
    hold_in_thread(HostLock(file), "exclusive", held=held)
    was_held = held.wait(5)
    stop.set()
    for neighbour in neighbours:
        neighbour.join()
    assert was_held


def test_the_clock_excludes_waiting(file: pathlib.Path) -> None:
    ticks: Iterator[float] = iter([0.0, 100.0, 100.0])
    lock = HostLock(file, lambda: next(ticks))
    with lock.exclusive():
        assert lock.clock() == 0.0


def test_a_lock_without_a_file_never_waits() -> None:
    lock = HostLock()
    with lock.exclusive(), lock.exclusive():
        pass
