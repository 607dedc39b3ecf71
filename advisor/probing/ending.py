"""How a worker is ended with all that it started, and what the log of one says that ended by itself."""

from __future__ import annotations

import contextlib
import os
import pathlib
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
    """Return what says most at the end of `log`: the Python line a crash came from, else the last line; cut to fit a table."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - LOG_TAIL_BYTES, 0))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
    except OSError:
        return "nothing"
    crashed = [place for place, line in enumerate(lines) if line.startswith(CRASHED_THREAD)]
    if crashed and crashed[-1] + 1 < len(lines):
        return lines[crashed[-1] + 1][-LONGEST_REASON:]
    return next((line[-LONGEST_REASON:] for line in reversed(lines) if line), "nothing")
