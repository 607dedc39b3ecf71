"""Whether a worker that waits for a token rests: what goes on working would take processors from the one that is timed.

The threads of many stacks spin for a while after a call, in the hope of another; that is waited
for. Some stacks ask for work again and again, in a thread or a process of their own. Such processes
are stopped between their worker's turns.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import time
from collections.abc import Iterable

import psutil

from advisor.probing.termination import belonging

#: Seconds of a first look, which lets pass whoever did nothing at all, and of a second one that
#: makes sure; and the share of a processor above which a process does not rest.
LOOKS = ((0.1, 0.0), (0.5, 0.1))
#: Seconds between looks at a worker that was just timed, how many of them must see it at rest, and
#: the longest wait for that. ONNX Runtime's threads spin for 60 ms after a call, measured with 1.31
#: on two processors.
SPIN_LOOK_SECONDS, LOOKS_AT_REST, LONGEST_SPIN_SECONDS = 0.005, 2, 0.5


class IdleWorkers:
    """The processes of each arm that go on working while their worker waits: they are stopped between its turns."""

    def __init__(self) -> None:
        self._restless: dict[str, tuple[psutil.Process, ...]] = {}

    def settle(self, arm: str, directory: pathlib.Path) -> float:
        """See which processes of the arm's worker do not rest, stop them, and return how many processors they take."""
        restless = find_restless(directory)
        self._restless[arm] = tuple(restless)
        self.pause(arm)
        return sum(restless.values())

    def pause(self, arm: str) -> None:
        """Stop what does not rest, where it is."""
        _tell(self._restless.get(arm, ()), signal.SIGSTOP)

    def wake(self, arm: str) -> None:
        """Let what was stopped go on."""
        _tell(self._restless.get(arm, ()), signal.SIGCONT)

    def forget(self, arm: str) -> None:
        """Know nothing of the arm any more: another worker of it begins."""
        self._restless.pop(arm, None)


def find_restless(directory: pathlib.Path) -> dict[psutil.Process, float]:
    """Return the processes of the worker in this control directory that work although it waits, each with the processors it takes."""
    working = dict.fromkeys(belonging(directory), 1.0)
    for seconds, most in LOOKS:
        before = {process: _processor_seconds(process) for process in working}
        begun = time.monotonic()
        time.sleep(seconds)
        taken = time.monotonic() - begun
        shares = {
            process: (_processor_seconds(process) - used) / taken
            for process, used in before.items()
        }
        working = {process: share for process, share in shares.items() if share > most}
        if not working:
            break
    return working


def wait_until_at_rest(process: int, longest_seconds: float = LONGEST_SPIN_SECONDS) -> None:
    """Return when none of the process's threads wants a processor any more, or at the latest after so many seconds."""
    until = time.monotonic() + longest_seconds
    seen_at_rest = 0
    while seen_at_rest < LOOKS_AT_REST and time.monotonic() < until:
        seen_at_rest = 0 if _wants_processor(process) else seen_at_rest + 1
        time.sleep(SPIN_LOOK_SECONDS)


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


def _wants_processor(process: int) -> bool:
    """Say whether a thread of the process runs or could: its state follows its name, which is in brackets and may hold anything."""
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[
                    2
                ].split()[0] == "R":
                    return True
    return False
