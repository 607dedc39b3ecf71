"""Kill a worker together with every process that it started."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterable

import psutil

from probes.runtime.watchdog import find_processes

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


def process_tree(directory: pathlib.Path, session: int = 0) -> list[psutil.Process]:
    """Return every running process of the worker in this control directory, or in this session."""
    # Every worker has its own session. A process in the advisor's session belongs to no worker for
    # that reason alone.
    found = find_processes(str(directory), sessions={session}, spared=os.getsid(0))
    running = []
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


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
