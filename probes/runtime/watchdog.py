"""Kill a worker and everything it started as soon as the advisor is gone, however it ended.

A thread cannot do this, since a compiler that holds the interpreter's lock would block it. The
watchdog is a forked process. It is forked before anything else is imported and sleeps until the
other end of standard input is closed.
"""

from __future__ import annotations

import os
import pathlib
import select
import signal

from probes import protocol


def start(notify_fd: int) -> None:
    """Fork the watchdog; return in the worker only.

    The watchdog closes its copy of `notify_fd`, so that the advisor reads end of file when the
    worker ends.
    """
    if os.fork() != 0:
        return
    os.close(notify_fd)
    poll = select.poll()
    # No event but the hang-up, which is always reported: the tokens are left for the worker.
    poll.register(0, 0)
    poll.poll()
    # Processes in sessions of their own are not in the process group. The watchdog is in both, so
    # it kills itself last.
    for process in find_processes(os.environ.get(protocol.MARK_VARIABLE, "")):
        if process != os.getpid():
            kill(process)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def find_processes(mark: str) -> set[int]:
    """Return the process ids of this worker and of everything it started.

    These are this process, those whose environment has the worker's mark, their descendants, and
    whatever shares a session with any of them. The mark alone does not suffice: a process that
    sets its title overwrites its environment.
    """
    variable = f"{protocol.MARK_VARIABLE}={mark}".encode()
    directories = {int(entry.name): entry for entry in pathlib.Path("/proc").glob("[0-9]*")}
    relatives = {pid: read_parent_and_session(entry) for pid, entry in directories.items()}
    found = {os.getpid()} | {
        pid for pid, entry in directories.items() if mark and variable in read_variables(entry)
    }
    while True:
        sessions = {relatives[pid][1] for pid in found & relatives.keys()} - {0}
        more = {
            pid
            for pid, (parent, session) in relatives.items()
            if parent in found or session in sessions
        } - found
        if not more:
            return found
        found |= more


def read_parent_and_session(directory: pathlib.Path) -> tuple[int, int]:
    """Return the ids of the parent and the session of a process in `/proc`; zeros if it is gone.

    Both follow the name in `stat`, which is in brackets and may contain spaces.
    """
    try:
        _, parent, _, session = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return 0, 0
    return int(parent), int(session)


def read_variables(directory: pathlib.Path) -> list[bytes]:
    """Return the variables a process started with; none if they cannot be read."""
    try:
        return (directory / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill(process: int) -> None:
    """Kill `process` if it still exists."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
