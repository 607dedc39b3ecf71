"""Parent of a worker: it ends everything that the worker started, however the worker ends.

A thread of the worker cannot do this: a compiler that holds the interpreter's lock would block it,
and a crash would end it. The watchdog is the process that the advisor started. It forks the worker
before anything else is imported, and sleeps until the worker has ended or the other end of standard
input is closed, which means that the advisor is gone. It is a subreaper: the kernel makes it the
parent of processes that detach themselves from the worker, so that none is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import resource
import select
import signal
import time
from collections.abc import Iterable, Iterator

from probes import protocol

#: Options of `prctl`, from `linux/prctl.h`.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: A process in an uninterruptible call of a driver may survive SIGKILL for a while.
SWEEP_SECONDS, SWEEP_POLL_SECONDS = 5.0, 0.005


def start(notify_fd: int) -> None:
    """Fork the worker and return in it; the calling process becomes its watchdog.

    The watchdog closes its copy of `notify_fd`, so that the advisor reads end of file when the
    worker ends. It exits as the worker did: with the same status, or by the same signal.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watchdog = os.getpid()
    worker = os.fork()
    if worker == 0:
        # A killed watchdog takes the worker with it; the advisor then kills the rest.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != watchdog:
            os._exit(1)
        return
    os.close(notify_fd)
    status = wait(worker)
    sweep()
    exit_like(status)


def wait(worker: int) -> int | None:
    """Return the wait status of the worker; None if the advisor is gone before it ends."""
    wake_read, wake_write = os.pipe()
    for descriptor in (wake_read, wake_write):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    # No event but the hang-up, which is always reported: the commands are left for the worker.
    poll.register(0, 0)
    poll.register(wake_read, select.POLLIN)
    while True:
        with contextlib.suppress(ChildProcessError):
            for pid, status in reap():
                if pid == worker:
                    return status
        ready = dict(poll.poll())
        if 0 in ready:
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(wake_read, 4096)


def reap() -> Iterator[tuple[int, int]]:
    """Yield ids and wait statuses of ended children; raise `ChildProcessError` without a child."""
    while (found := os.waitpid(-1, os.WNOHANG))[0]:
        yield found


def sweep() -> None:
    """Kill every remaining process of the worker, and those that they start meanwhile."""
    end = time.monotonic() + SWEEP_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            list(reap())
            mark = os.environ.get(protocol.MARK_VARIABLE, "")
            for process in find_processes(mark, {os.getpid()}):
                if process != os.getpid():
                    kill(process)
            time.sleep(SWEEP_POLL_SECONDS)


def exit_like(status: int | None) -> None:
    """End this process as the worker ended; None means that the advisor is gone."""
    if status is None:
        os.killpg(os.getpgrp(), signal.SIGKILL)
    elif os.WIFSIGNALED(status):
        # The worker has dumped its core already, if it should.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    else:
        os._exit(os.WEXITSTATUS(status))


def find_processes(
    mark: str, known: Iterable[int] = (), sessions: Iterable[int] = (), spared: int = 0
) -> set[int]:
    """Return the process ids of a worker and of everything it started.

    These are the processes that are `known`, those whose environment has the worker's mark, their
    descendants, and whatever shares a session with any of them or is in `sessions`. The mark alone
    does not suffice: a process that sets its title overwrites its environment. The session `spared`
    makes no process one of them.
    """
    variable = f"{protocol.MARK_VARIABLE}={mark}".encode()
    directories = {int(entry.name): entry for entry in pathlib.Path("/proc").glob("[0-9]*")}
    relatives = {pid: read_parent_and_session(entry) for pid, entry in directories.items()}
    marked = [
        pid for pid, entry in directories.items() if mark and variable in read_variables(entry)
    ]
    found = {*known, *marked}
    while True:
        shared = {*sessions, *(relatives[pid][1] for pid in found & relatives.keys())} - {0, spared}
        more = {
            pid
            for pid, (parent, session) in relatives.items()
            if parent in found or session in shared
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
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)
