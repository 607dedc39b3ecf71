"""Kill a worker together with every process that it started."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterable

import psutil

from probes import protocol

#: File in a control directory: the user skipped this worker.
SKIPPED_FILE = "skipped"
#: Times that the processes of a worker are collected and killed; they may start others meanwhile.
MAX_SWEEPS = 10


def kill_worker(popen: subprocess.Popen[bytes], directory: pathlib.Path) -> None:
    """Kill the worker's process group and all its other processes, and wait for the worker."""
    # The watchdog, which is `popen`, is killed last: it adopts the processes whose parents are
    # killed. Without it they could not be found.
    for _ in range(MAX_SWEEPS):
        others = [each for each in process_tree(directory, popen.pid) if each.pid != popen.pid]
        if not others:
            break
        _kill(others)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    kill_process_tree(directory)


def kill_process_tree(directory: pathlib.Path) -> None:
    """Kill every process of the worker in this control directory."""
    _kill(process_tree(directory))


def process_tree(directory: pathlib.Path, session_id: int | None = None) -> list[psutil.Process]:
    """Return every running process of the worker in this control directory.

    These are the processes with the worker's mark in their environment, the processes in a session
    with one of them or in `session_id`, and all their descendants. The mark alone is not enough: a
    process that sets its own title overwrites its environment.
    """
    processes = {
        process.pid: process for process in psutil.process_iter(["environ", "ppid", "status"])
    }
    sessions = {pid: _session_of(pid) for pid in processes}
    found = {
        pid
        for pid, process in processes.items()
        if (process.info["environ"] or {}).get(protocol.MARK_VARIABLE) == str(directory)
    }
    while True:
        # Every worker has its own session. A process in the advisor's session belongs to no worker
        # for that reason alone.
        worker_sessions = {session_id, *(sessions[pid] for pid in found)} - {_session_of(0), None}
        more = {
            pid
            for pid, process in processes.items()
            if process.info["ppid"] in found or sessions[pid] in worker_sessions
        } - found
        if not more:
            return [
                process
                for process in map(processes.__getitem__, found)
                if process.info["status"] != psutil.STATUS_ZOMBIE
            ]
        found |= more


def _session_of(pid: int) -> int | None:
    """Return the session of a process, or of this process for 0.

    None for a process that has ended or that is in another PID namespace.
    """
    try:
        return os.getsid(pid) or None
    except OSError:
        return None


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def skip(directory: pathlib.Path) -> None:
    """Kill the worker in this control directory and record that the user skipped it.

    Any thread may call this.
    """
    # The worker may have put a link there.
    with contextlib.suppress(OSError):
        os.close(os.open(directory / SKIPPED_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    kill_process_tree(directory)
