"""The guard that ends a worker and everything it started as soon as the advisor is gone, however it went.

A thread could not do it: a compiler that holds the interpreter's lock would keep it from running. So the guard is a fork, made before
anything else is imported, that sleeps until the other end of standard input is closed.
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
    poll.register(0, 0)  # no event but the hang-up, which is always reported: tokens are left for the worker
    poll.poll()
    # What has made a session of its own is not reached through the group; the guard, which is in both, goes last.
    for process in marked(os.environ.get(protocol.MARK, "")):
        if process != os.getpid():
            kill(process)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the processes that carry the worker's mark in their environment, which whatever it started inherits."""
    wanted = f"{protocol.MARK}={mark}".encode()
    return [int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*") if mark and wanted in environment_of(process)]


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
