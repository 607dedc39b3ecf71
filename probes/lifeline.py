"""The guard that ends a worker and everything it started as soon as the advisor is gone, however it went.

A thread could not do it: a compiler that holds the interpreter's lock would keep it from running. So the guard is a fork, made before
anything else is imported, that sleeps until the other end of standard input is closed.
"""

from __future__ import annotations

import os
import pathlib
import select
import signal


def guard(doorbell: int) -> None:
    """Fork the guard; return in the worker only."""
    worker = os.getpid()
    if os.fork() != 0:
        return
    # The worker's end must show as end of file on the doorbell, so the guard may not hold it open.
    os.close(doorbell)
    poll = select.poll()
    poll.register(0, 0)  # no event but the hang-up, which is always reported: tokens are left for the worker
    poll.poll()
    # Descendants that made a session of their own are not reached through the group.
    for process in descendants(worker):
        kill(process)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """Return the process ids below `process`, as far as the kernel tells."""
    found: list[int] = []
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        try:
            below = [int(child) for child in children.read_text(encoding="ascii").split()]
        except OSError:
            continue
        for child in below:
            found += [child, *descendants(child)]
    return found


def kill(process: int) -> None:
    """Kill `process` if it still exists."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
