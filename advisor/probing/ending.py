"""How a worker is ended with all that it started, and what the log of one says that ended by itself."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Iterator

import psutil

from probes import protocol

#: Longest piece of a worker's log that is quoted as a reason.
LONGEST_REASON = 300
LOG_TAIL_BYTES = 16384
#: How faulthandler begins the stack of the thread that crashed; its innermost line follows.
CRASHED_THREAD = "Current thread 0x"
#: An exception that ended a process of the worker's, and how many lines may follow it: its other processes notice, and say so.
TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"(\w+\.)*\w*(Error|Exception)(: .*)?")
MOST_LINES_AFTER = 6
#: File in a control directory that says that the user did not want to wait.
SKIPPED = "skipped"


def kill_all(popen: subprocess.Popen[bytes], directory: pathlib.Path) -> None:
    """Kill the worker's group, and what has left the group but still carries its mark; wait for the worker."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    kill_marked(directory)
    popen.wait()


def kill_marked(directory: pathlib.Path) -> None:
    """Kill every process that carries the mark of the worker in this control directory."""
    for process in marked(directory):
        with contextlib.suppress(psutil.Error):
            process.kill()


def marked(directory: pathlib.Path) -> Iterator[psutil.Process]:
    """Yield every process that carries the mark of the worker in this control directory."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(protocol.MARK) == str(directory):
                yield process


def skip(directory: pathlib.Path) -> None:
    """End the worker in this control directory because the user does not want to wait for it; callable from any thread."""
    (directory / SKIPPED).touch()
    kill_marked(directory)


def last_words(log: pathlib.Path) -> str:
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
    raised = [line for line in said[traced[-1] :][-1 - MOST_LINES_AFTER :] if RAISED.fullmatch(line)] if traced else []
    if raised:
        return raised[0][:LONGEST_REASON]
    return said[-1][-LONGEST_REASON:] if said else "nothing"
