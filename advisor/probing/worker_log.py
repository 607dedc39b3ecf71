"""Extract the reason of a failure from the log of a worker or a recipe."""

from __future__ import annotations

import pathlib
import re

#: Longest piece of a log that is quoted as a reason.
MAX_REASON_CHARS = 300
LOG_TAIL_BYTES = 16384
EMPTY_LOG = "(empty log)"
#: First line of the stack that faulthandler prints for the thread that crashed. The innermost frame
#: follows.
CRASHED_THREAD = "Current thread 0x"
TRACEBACK = "Traceback (most recent call last):"
EXCEPTION_LINE = re.compile(r"(\w+\.)*\w*(Error|Exception)(: .*)?")
#: Lines that may follow the exception that ended a subprocess of the worker, such as the scheduler
#: of an engine: the other processes report that it is gone.
MAX_LINES_AFTER_EXCEPTION = 6


def failure_reason(log: pathlib.Path) -> str:
    """Return the most informative line at the end of `log`, cut to `MAX_REASON_CHARS`.

    That is the innermost Python frame of a crash, else the last exception, else the last line.
    """
    lines = _read_tail(log)
    crashes = [number for number, line in enumerate(lines) if line.startswith(CRASHED_THREAD)]
    if crashes and crashes[-1] + 1 < len(lines):
        return lines[crashes[-1] + 1][-MAX_REASON_CHARS:]
    lines = [line for line in lines if line]
    exception = _last_exception(lines)
    if exception:
        return exception[:MAX_REASON_CHARS]
    return lines[-1][-MAX_REASON_CHARS:] if lines else EMPTY_LOG


def _read_tail(log: pathlib.Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - LOG_TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines()]


def _last_exception(lines: list[str]) -> str | None:
    tracebacks = [number for number, line in enumerate(lines) if line.endswith(TRACEBACK)]
    if not tracebacks:
        return None
    candidates = lines[tracebacks[-1] :][-1 - MAX_LINES_AFTER_EXCEPTION :]
    return next((line for line in candidates if EXCEPTION_LINE.fullmatch(line)), None)
