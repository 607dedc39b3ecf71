"""Whether a worker that waits for a token rests: what goes on working would take processors from the one that is timed.

Some stacks ask for work again and again, in a thread or a process of their own. Such processes are stopped between their worker's turns.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import time
from collections.abc import Iterable

import psutil

from advisor.probing.ending import marked

#: Seconds of a first look, which lets pass whoever did nothing at all, and of a second one that makes sure; and the share of a processor
#: above which a process does not rest.
LOOKS = ((0.1, 0.0), (0.5, 0.1))


def find_restless(directory: pathlib.Path) -> dict[psutil.Process, float]:
    """Return the processes of the worker in this control directory that work although it waits, each with the processors it takes."""
    working = dict.fromkeys(marked(directory), 1.0)
    for seconds, most in LOOKS:
        before = {process: _processor_seconds(process) for process in working}
        begun = time.monotonic()
        time.sleep(seconds)
        taken = time.monotonic() - begun
        shares = {process: (_processor_seconds(process) - used) / taken for process, used in before.items()}
        working = {process: share for process, share in shares.items() if share > most}
        if not working:
            break
    return working


def lay_down(processes: Iterable[psutil.Process]) -> None:
    """Stop the processes where they are."""
    _tell(processes, signal.SIGSTOP)


def wake(processes: Iterable[psutil.Process]) -> None:
    """Let the processes go on."""
    _tell(processes, signal.SIGCONT)


def _tell(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _processor_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
