"""`host`: execute a run for screens in another process.

The screens send commands as lines on standard input: `pause`, `go`, `stay`, `skip ARM`. When
standard input closes without `stay`, the screens were killed and the run ends. Standard output
carries the states `paused` and `going`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TextIO

from advisor.context import Context
from advisor.domain.plan import arm_directory_name
from advisor.domain.run_events import ModelSurveyed, WorkerEnded, WorkerReported, WorkerSpawned
from advisor.domain.worker_events import BlockTimed, Ready
from advisor.pipeline.execution import execute
from advisor.probing.termination import skip
from advisor.store import Run

STANDARD_OUTPUT = 1


def send_state(state: str) -> None:
    """Send a state to the screens; do nothing when they are gone."""
    with contextlib.suppress(OSError):
        # Unbuffered: a stream would keep the undelivered text and fail when the program ends.
        os.write(STANDARD_OUTPUT, f"{state}\n".encode())


class Gate:
    """Pauses a run while it is closed.

    Its clock stops while the run is paused, so that a pause counts neither against the budget nor
    against a deadline.
    """

    def __init__(self, clock: Callable[[], float], send_state: Callable[[str], None]) -> None:
        self._clock = clock
        self._send_state = send_state
        self._open = threading.Event()
        self._open.set()
        self._closed_seconds = 0.0

    def close(self) -> None:
        """Pause the run at its next pass through the gate."""
        self._open.clear()

    def open(self) -> None:
        """Let the run continue."""
        self._open.set()

    def clock(self) -> float:
        """Return the seconds without those of pauses."""
        return self._clock() - self._closed_seconds

    def pass_through(self) -> None:
        """Wait while the gate is closed."""
        if self._open.is_set():
            return
        since = self._clock()
        self._send_state("paused")
        self._open.wait()
        self._closed_seconds += self._clock() - since
        self._send_state("going")


def execute_for_screens(
    run: Run, context: Context, commands: TextIO, send_state: Callable[[str], None]
) -> None:
    """Execute the rest of `run` and obey `commands` meanwhile."""
    gate, workers = Gate(context.clock, send_state), dict[str, pathlib.Path]()
    threading.Thread(
        target=_obey, args=(commands, gate, workers), name="commands", daemon=True
    ).start()
    for event in execute(run, dataclasses.replace(context, clock=gate.clock)):
        run_event = event.run_event
        if isinstance(run_event, WorkerSpawned):
            workers[run_event.arm] = (
                run.arms / arm_directory_name(run_event.arm) / str(run_event.process)
            )
        elif isinstance(run_event, WorkerEnded):
            workers.pop(run_event.arm, None)
        if _is_between_sections(run_event):
            gate.pass_through()


def _obey(commands: TextIO, gate: Gate, workers: Mapping[str, pathlib.Path]) -> None:
    continues_alone = False
    for line in commands:
        command, _, arm = line.strip().partition(" ")
        if command == "pause":
            gate.close()
        elif command == "go":
            gate.open()
        elif command == "stay":
            continues_alone = True
        elif command == "skip" and arm in workers:
            skip(workers[arm])
    if continues_alone:
        gate.open()
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def _is_between_sections(run_event: object) -> bool:
    """Return whether neither a timed section nor a build is in progress."""
    return isinstance(run_event, (WorkerEnded, ModelSurveyed)) or (
        isinstance(run_event, WorkerReported)
        and isinstance(run_event.worker_event, (BlockTimed, Ready))
    )
