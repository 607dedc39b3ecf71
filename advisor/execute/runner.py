"""Execute a run and obey the commands that other processes write into its directory.

`advisor.store.control` describes the commands. `runner` is the process that works on a run for the
screens: when its standard input closes without the line `stay`, the screens were killed, and the
run ends.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from advisor.ask.context import Context
from advisor.domain.plan import arm_directory_name
from advisor.domain.run_events import LoggedEvent, WorkerEnded, WorkerReported, WorkerSpawned
from advisor.execute.execution import execute
from advisor.probing.processes import skip
from advisor.store.control import RunControl
from advisor.store.runs import Run
from probes.events import Ready, Visited

STAY = "stay"
#: Seconds between two looks at the commands.
POLL_SECONDS = 0.25


class Gate:
    """Pauses a run while it is closed.

    Its clock stops while the run is paused, so that a pause counts neither against the budget nor
    against a deadline.
    """

    def __init__(self, clock: Callable[[], float], set_paused: Callable[..., None]) -> None:
        self._clock = clock
        self._set_paused = set_paused
        self._open = threading.Event()
        self._open.set()
        self._closed_seconds = 0.0

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def clock(self) -> float:
        return self._clock() - self._closed_seconds

    def pass_through(self) -> None:
        if self._open.is_set():
            return
        since = self._clock()
        self._set_paused(paused=True)
        self._open.wait()
        self._closed_seconds += self._clock() - since
        self._set_paused(paused=False)


def execute_controlled(
    run: Run, context: Context, wait_seconds: float | None
) -> Iterator[LoggedEvent]:
    """Execute the rest of `run`, yield its events, and obey its commands meanwhile.

    The caller must have removed the commands that were sent to an earlier process.
    """
    control = run.control
    gate = Gate(context.clock, control.set_paused)
    workers, is_over = RunningWorkers(run), threading.Event()
    arguments = (control, gate, workers, is_over)
    commands = threading.Thread(target=_obey, args=arguments, name="commands", daemon=True)
    try:
        gated = dataclasses.replace(context, clock=gate.clock)
        for event in execute(run, gated, wait_seconds, workers.to_skip):
            # Before the first event, the run may belong to another process.
            if commands.ident is None:
                commands.start()
            workers.follow(event.run_event)
            yield event
            if _is_between_sections(event.run_event):
                gate.pass_through()
    finally:
        is_over.set()
        if commands.ident is not None:
            control.clear()


class RunningWorkers:
    """The workers that can be skipped: also those that have not started yet."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: The control directories by arm; None for a worker that has ended.
        self._directories: dict[str, pathlib.Path | None] = {}
        #: Arms that the user skips and whose workers have not started.
        self.to_skip: set[str] = set()

    def follow(self, run_event: object) -> None:
        if isinstance(run_event, WorkerSpawned):
            folder = self._run.arms / arm_directory_name(run_event.arm)
            self._directories[run_event.arm] = folder / str(run_event.process)
            self._skip_started(run_event.arm)
        elif isinstance(run_event, WorkerEnded):
            self._directories[run_event.arm] = None

    def skip(self, arm: str) -> None:
        """End the worker of an arm, or as soon as it starts; any thread may call this."""
        self.to_skip.add(arm)
        self._skip_started(arm)

    def _skip_started(self, arm: str) -> None:
        if arm in self.to_skip and arm in self._directories:
            self.to_skip.discard(arm)
            if directory := self._directories[arm]:
                skip(directory)


def _obey(
    control: RunControl, gate: Gate, workers: RunningWorkers, is_over: threading.Event
) -> None:
    offset = 0
    while not is_over.wait(POLL_SECONDS):
        commands, offset = control.read_commands(offset)
        for line in commands:
            command, _, arm = line.partition(" ")
            if command == "pause":
                gate.close()
            elif command == "go":
                gate.open()
            elif command == "cancel":
                os.kill(os.getpid(), signal.SIGTERM)
            elif command == "skip":
                workers.skip(arm)


def execute_for_screens(
    run: Run, context: Context, lifeline: TextIO, wait_seconds: float | None
) -> None:
    """End the process when `lifeline` closes without the line `stay`."""
    threading.Thread(target=_watch, args=(lifeline,), name="lifeline", daemon=True).start()
    for _ in execute_controlled(run, context, wait_seconds):
        pass


def _watch(lifeline: TextIO) -> None:
    if STAY not in (line.strip() for line in lifeline):
        os.kill(os.getpid(), signal.SIGTERM)


def _is_between_sections(run_event: object) -> bool:
    """Return whether neither a timed section nor a build is going on."""
    return isinstance(run_event, WorkerEnded) or (
        isinstance(run_event, WorkerReported)
        and isinstance(run_event.worker_event, (Visited, Ready))
    )
