"""The failures of workers that did not report one, and what their logs say about it."""

from __future__ import annotations

import os
import pathlib
import re
import resource
import signal
from collections.abc import Iterable, Sequence

from advisor.probing.processes import SKIPPED_FILE
from advisor.probing.worker_process import Worker
from advisor.store.files import read_tail
from probes.outcome import Failure, Phase

OPTIONS_OF_DEADLINES: dict[Phase, str] = {
    "open": "--max-open-seconds",
    "build": "--max-build-seconds, or --max-build-times for single workflows",
    "new-shapes": "--max-build-seconds",
}


def timeout_failure(worker: Worker) -> Failure | None:
    """Return None for a worker that tries new shapes after a race: it has made all its visits."""
    phase, most = worker.phase, worker.max_build_seconds
    if phase == "build" and worker.remaining_build_seconds < most:
        return Failure("timed-out", phase, worker.build_limit.reason, worker.build_limit.fix)
    if phase == "new-shapes" and worker.new_shape_seconds < most:
        return None
    option = OPTIONS_OF_DEADLINES.get(phase)
    return Failure(
        "timed-out",
        phase,
        f"the phase {phase} exceeded its deadline of {worker.phase_seconds:g} s; "
        f"its log ends: {failure_reason(worker.log)}",
        f"allow more with {option}" if option else None,
    )


def skipped_by_user(phase: Phase) -> Failure:
    return Failure("skipped", phase, f"by the user in the phase {phase}", skip_cause="user")


def exit_failure(worker: Worker) -> Failure:
    status = worker.popen.wait()
    if os.path.lexists(worker.directory / SKIPPED_FILE):
        return skipped_by_user(worker.phase)
    if status >= 0 and worker.phase == "open":
        return Failure(
            "model-refused",
            worker.phase,
            f"code that opens the model ended its process with status {status}; its log ends:"
            f" {failure_reason(worker.log)}",
            "let the code return or raise an exception, without os._exit",
        )
    name = signal.Signals(-status).name if status < 0 else None
    how = f"was killed by {name}" if name else f"exited with status {status} and no response"
    if name == "SIGKILL":
        has_limit = resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
        what = "memory, or the processor time that ulimit -t allows," if has_limit else "memory"
        how += f" (the kernel does this when {what} runs out)"
    return Failure(
        "crashed",
        worker.phase,
        f"its process {how}; its log ends: {failure_reason(worker.log)}",
        signal=name,
    )


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
    # The outcome names a signal, and the frame that the signal met says more.
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
    try:
        text = read_tail(log, LOG_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return EMPTY_LOG
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    message = _last_match(LAST_WORDS, lines)
    if message:
        return message[:MAX_REASON_CHARS]
    crashes = [number for number, line in enumerate(lines) if line.startswith(CRASHED_THREAD)]
    following = "".join(lines[crashes[-1] + 1 :][:1]) if crashes else ""
    if FRAME.fullmatch(following):
        return following[-MAX_REASON_CHARS:]
    message = _last_match([SIGNAL_LINE], lines) or _last_exception(lines)
    if message:
        return message[:MAX_REASON_CHARS]
    own = [line for line in lines if not DUMP_LINE.fullmatch(line)] or lines
    return own[-1][-MAX_REASON_CHARS:] if own else EMPTY_LOG


def _last_match(patterns: Iterable[re.Pattern[str]], lines: Sequence[str]) -> str | None:
    """Return the last line that matches the first of the patterns that any line matches."""
    for pattern in patterns:
        found = [line for line in lines if pattern.fullmatch(line)]
        if found:
            return found[-1]
    return None


def _last_exception(lines: Sequence[str]) -> str | None:
    tracebacks = [number for number, line in enumerate(lines) if line.endswith(TRACEBACK)]
    if not tracebacks:
        return None
    candidates = lines[tracebacks[-1] :][-1 - MAX_LINES_AFTER_EXCEPTION :]
    return next((line for line in candidates if EXCEPTION_LINE.fullmatch(line)), None)
