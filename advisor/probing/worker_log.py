"""Extract the reason of a failure from the log of a worker or a snippet."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Sequence

from advisor.system import read_tail

#: Longest piece of a log that is quoted as a reason.
MAX_REASON_CHARS = 300
#: The stacks and the modules that follow the message of a crash take tens of kilobytes.
LOG_TAIL_BYTES = 65536
EMPTY_LOG = "(empty log)"
#: What a process says about its end, the most informative first: the message of a C++ exception,
#: its type, and an error of the interpreter.
LAST_WORDS = (
    re.compile(r"what\(\):\s*\S.*"),
    # Further threads that throw add "terminate called recursively", which says nothing.
    re.compile(r"terminate called (after|without) .*"),
    # Of a signal, the outcome has the name, and the frame that it met says more.
    re.compile(
        r"Fatal Python error: (?!(Aborted|Bus error|Floating.point exception|Illegal instruction"
        r"|Segmentation fault)$).*"
    ),
)
SIGNAL_LINE = re.compile(r"Fatal Python error: .*")
#: First line of the stack that faulthandler prints for the thread that crashed. The innermost frame
#: follows, if the thread has frames of Python.
CRASHED_THREAD = "Current thread 0x"
FRAME = re.compile(r'File ".*", line \d+ in .*')
#: What faulthandler prints besides: stacks of threads, and the modules that are loaded.
DUMP_LINE = re.compile(
    rf"{FRAME.pattern}|(Current thread|Thread) 0x.*|<no Python frame>|\.\.\.|Extension modules: .*"
)
TRACEBACK = "Traceback (most recent call last):"
EXCEPTION_LINE = re.compile(r"(\w+\.)*\w*(Error|Exception)(: .*)?")
#: Lines that may follow the exception that ended a subprocess of the worker, such as the scheduler
#: of an engine: the other processes report that it is gone.
MAX_LINES_AFTER_EXCEPTION = 6


def failure_reason(log: pathlib.Path) -> str:
    """Return the most informative line at the end of `log`, cut to `MAX_REASON_CHARS`.

    That is what the process said about its crash, else the innermost Python frame of the crash,
    else the last exception, else the last line.
    """
    lines = _read_tail(log)
    message = _last_match(LAST_WORDS, lines)
    if message:
        return message[:MAX_REASON_CHARS]
    frame = _crashed_frame(lines)
    if frame:
        return frame[-MAX_REASON_CHARS:]
    message = _last_match([SIGNAL_LINE], lines) or _last_exception(lines)
    if message:
        return message[:MAX_REASON_CHARS]
    own = [line for line in lines if not DUMP_LINE.fullmatch(line)] or lines
    return own[-1][-MAX_REASON_CHARS:] if own else EMPTY_LOG


def _read_tail(log: pathlib.Path) -> list[str]:
    try:
        text = read_tail(log, LOG_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in map(str.strip, text.splitlines()) if line]


def _last_match(patterns: Iterable[re.Pattern[str]], lines: Sequence[str]) -> str | None:
    """Return the last line that matches the first of the patterns that any line matches."""
    for pattern in patterns:
        found = [line for line in lines if pattern.fullmatch(line)]
        if found:
            return found[-1]
    return None


def _crashed_frame(lines: Sequence[str]) -> str | None:
    crashes = [number for number, line in enumerate(lines) if line.startswith(CRASHED_THREAD)]
    following = lines[crashes[-1] + 1 :][:1] if crashes else ()
    return next((line for line in following if FRAME.fullmatch(line)), None)


def _last_exception(lines: Sequence[str]) -> str | None:
    tracebacks = [number for number, line in enumerate(lines) if line.endswith(TRACEBACK)]
    if not tracebacks:
        return None
    candidates = lines[tracebacks[-1] :][-1 - MAX_LINES_AFTER_EXCEPTION :]
    return next((line for line in candidates if EXCEPTION_LINE.fullmatch(line)), None)
