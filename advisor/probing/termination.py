"""How a worker is ended with all that it started, and what the log of one says that ended by itself."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Iterable

import psutil

from probes import protocol

#: Longest piece of a worker's log that is quoted as a reason.
LONGEST_REASON = 300
LOG_TAIL_BYTES = 16384
#: How faulthandler begins the stack of the thread that crashed; its innermost line follows.
CRASHED_THREAD = "Current thread 0x"
#: An exception that ended a process of the worker's, and how many lines may follow it: its other
#: processes notice, and say so.
TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"(\w+\.)*\w*(Error|Exception)(: .*)?")
MOST_LINES_AFTER = 6
#: File in a control directory that says that the user did not want to wait.
SKIPPED = "skipped"


def kill_all(popen: subprocess.Popen[bytes], directory: pathlib.Path) -> None:
    """Kill the worker's group, and what has left the group but still belongs to the worker; wait for the worker."""
    # Looked for before: what descends from the worker cannot be told any more once the worker is
    # gone.
    processes = belonging(directory, popen.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    _kill(processes)
    kill_belonging(directory)
    popen.wait()


def kill_belonging(directory: pathlib.Path) -> None:
    """Kill every process of the worker in this control directory."""
    _kill(belonging(directory))


def belonging(directory: pathlib.Path, session: int | None = None) -> list[psutil.Process]:
    """Return every process that carries the mark of the worker in this control directory, is in a session with one, or descends from one.

    The mark alone does not do: a process that gives itself a title writes it over the variables
    that it was started with.
    """
    processes = {process.pid: process for process in psutil.process_iter(["environ", "ppid"])}
    sessions = {number: _session_of(number) for number in processes}
    found = {
        number
        for number, process in processes.items()
        if (process.info["environ"] or {}).get(protocol.MARK) == str(directory)
    }
    while True:
        # A worker has a session of its own; what shares ours is no worker's for that.
        theirs = {session, *(sessions[number] for number in found)} - {_session_of(0), None}
        more = {
            number
            for number, process in processes.items()
            if process.info["ppid"] in found or sessions[number] in theirs
        } - found
        if not more:
            return [processes[number] for number in found]
        found |= more


def _session_of(number: int) -> int | None:
    """Return the session of a process, by its number or 0 for this one; None for one that is gone or another container's."""
    try:
        return os.getsid(number) or None
    except OSError:
        return None


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def skip(directory: pathlib.Path) -> None:
    """End the worker in this control directory because the user does not want to wait for it; callable from any thread."""
    (directory / SKIPPED).touch()
    kill_belonging(directory)


def failure_reason(log: pathlib.Path) -> str:
    """Return what says most at the end of `log`: the Python line of a crash, an exception, else the last line; cut to fit a table."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - LOG_TAIL_BYTES, 0))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return "nothing"
    crashed = [place for place, line in enumerate(lines) if line.startswith(CRASHED_THREAD)]
    if crashed and crashed[-1] + 1 < len(lines):
        return lines[crashed[-1] + 1][-LONGEST_REASON:]
    said = [line for line in lines if line]
    traced = [place for place, line in enumerate(said) if line.endswith(TRACEBACK)]
    raised = (
        [line for line in said[traced[-1] :][-1 - MOST_LINES_AFTER :] if RAISED.fullmatch(line)]
        if traced
        else []
    )
    if raised:
        return raised[0][:LONGEST_REASON]
    return said[-1][-LONGEST_REASON:] if said else "nothing"
