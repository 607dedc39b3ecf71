"""`host`: work on a run for screens that live in another process, which may ask for a pause, leave the run alone, or be gone.

Orders come as lines on standard input: `pause`, `go`, `stay`, `skip ARM`. When standard input
closes without `stay`, the run is ended: whoever watched it was killed. Standard output says
`paused` and `going`.
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
from advisor.domain.plan import folder_of
from advisor.domain.run_events import Ended, Spawned, Surveyed, WorkerReported
from advisor.domain.worker_events import BlockTimed, Ready
from advisor.pipeline.execution import execute
from advisor.probing.termination import skip
from advisor.store import Run

STANDARD_OUTPUT = 1


def say(word: str) -> None:
    """Tell the screens, if they are still there: a run that was left alone goes on without them."""
    with contextlib.suppress(OSError):
        # Not by a stream, which would keep what nobody took and fail at the end of the program.
        os.write(STANDARD_OUTPUT, f"{word}\n".encode())


class Gate:
    """Open while the run may go on.

    Its clock stands still while it is closed, so that a pause costs no budget and no deadline.
    """

    def __init__(self, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        self._clock = clock
        self._say = say
        self._open = threading.Event()
        self._open.set()
        self._closed_seconds = 0.0

    def close(self) -> None:
        """Let the run stop where it next can."""
        self._open.clear()

    def open(self) -> None:
        """Let the run go on."""
        self._open.set()

    def clock(self) -> float:
        """Return the seconds, those of pauses left out."""
        return self._clock() - self._closed_seconds

    def pass_through(self) -> None:
        """Wait while the gate is closed."""
        if self._open.is_set():
            return
        since = self._clock()
        self._say("paused")
        self._open.wait()
        self._closed_seconds += self._clock() - since
        self._say("going")


def work(run: Run, world: Context, orders: TextIO, say: Callable[[str], None]) -> None:
    """Do what is left of `run`, and meanwhile what `orders` say."""
    gate, workers = Gate(world.clock, say), dict[str, pathlib.Path]()
    threading.Thread(target=_obey, args=(orders, gate, workers), name="orders", daemon=True).start()
    for event in execute(run, dataclasses.replace(world, clock=gate.clock)):
        run_event = event.run_event
        if isinstance(run_event, Spawned):
            workers[run_event.arm] = run.arms / folder_of(run_event.arm) / str(run_event.process)
        elif isinstance(run_event, Ended):
            workers.pop(run_event.arm, None)
        if _is_between_sections(run_event):
            gate.pass_through()


def _obey(orders: TextIO, gate: Gate, workers: Mapping[str, pathlib.Path]) -> None:
    stays = False
    for line in orders:
        order, _, arm = line.strip().partition(" ")
        if order == "pause":
            gate.close()
        elif order == "go":
            gate.open()
        elif order == "stay":
            stays = True
        elif order == "skip" and arm in workers:
            skip(workers[arm])
    if stays:
        gate.open()
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def _is_between_sections(run_event: object) -> bool:
    """Say whether no timed section and no build goes on."""
    return isinstance(run_event, (Ended, Surveyed)) or (
        isinstance(run_event, WorkerReported) and isinstance(run_event.said, (BlockTimed, Ready))
    )
