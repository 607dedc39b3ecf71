"""The guard that ends a worker and everything it started as soon as the advisor is gone, however it went.

A thread could not do it: a compiler that holds the interpreter's lock would keep it from running.
So the guard is a fork, made before anything else is imported, that sleeps until the other end of
standard input is closed.
"""

from __future__ import annotations

import os
import pathlib
import select
import signal

from probes import protocol


def guard(doorbell: int) -> None:
    """Fork the guard; return in the worker only."""
    if os.fork() != 0:
        return
    # The worker's end must show as end of file on the doorbell, so the guard may not hold it open.
    os.close(doorbell)
    poll = select.poll()
    poll.register(
        0, 0
    )  # no event but the hang-up, which is always reported: tokens are left for the worker
    poll.poll()
    # What has made a session of its own is not reached through the group; the guard, which is in
    # both, goes last.
    for process in belonging(os.environ.get(protocol.MARK, "")):
        if process != os.getpid():
            kill(process)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def belonging(mark: str) -> set[int]:
    """Return the processes of this session, those that carry the worker's mark, and what descends from either or shares a session with it.

    The mark is inherited by whatever the worker started, but a process that gives itself a title
    writes it over its variables.
    """
    wanted = f"{protocol.MARK}={mark}".encode()
    places = {int(place.name): place for place in pathlib.Path("/proc").glob("[0-9]*")}
    kin = {number: kin_of(place) for number, place in places.items()}
    found = {os.getpid()} | {
        number for number, place in places.items() if mark and wanted in environment_of(place)
    }
    while True:
        sessions = {kin[number][1] for number in found & kin.keys()} - {0}
        more = {
            number
            for number, (parent, session) in kin.items()
            if parent in found or session in sessions
        } - found
        if not more:
            return found
        found |= more


def kin_of(process: pathlib.Path) -> tuple[int, int]:
    """Return the numbers of a process's parent and of its session, which stand behind its name; zeros when it is gone."""
    try:
        _, parent, _, session = (process / "stat").read_bytes().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return 0, 0
    return int(parent), int(session)


def environment_of(process: pathlib.Path) -> list[bytes]:
    """Return the variables a process started with; none when it is another user's or gone."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill(process: int) -> None:
    """Kill `process` if it still exists."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
