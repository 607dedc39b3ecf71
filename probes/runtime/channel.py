"""The worker's side of the control directory: events out, commands in, one response."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import select
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from probes import commands, events, protocol
from probes.events import Event
from probes.files import replace_when_complete
from probes.outcome import Outcome, Phase
from probes.shape import Shape


class Channel:
    """Writes events and the response, and reads commands; each event notifies the advisor once."""

    def __init__(self, directory: pathlib.Path, notify_fd: int) -> None:
        self.phase: Phase = "start"
        self._directory = directory
        self._notify_fd = notify_fd
        self._events = (directory / protocol.EVENTS).open("a", encoding="utf-8", errors="replace")
        self._unread, self._commands = b"", 0
        os.set_blocking(notify_fd, False)

    def send(self, event: Event) -> None:
        self._events.write(encode(event) + "\n")
        self._events.flush()
        self._notify()

    def start_phase(self, phase: Phase, shape: Shape | None = None) -> None:
        """Report the start of a phase; the advisor's deadlines count from here."""
        self.phase = phase
        self.send(events.PhaseStarted(phase, shape))

    def respond(self, outcome: Outcome) -> None:
        with replace_when_complete(self._directory / protocol.RESPONSE) as partial:
            partial.write_text(encode(outcome), encoding="utf-8", errors="replace")
        self._notify()

    @contextlib.contextmanager
    def stopwatch(self) -> Iterator[Callable[[], float]]:
        """Yield a function that, after the block, returns its seconds without suspensions."""
        suspended, start, taken = self._suspended_seconds(), perf_counter(), 0.0
        yield lambda: taken
        elapsed = perf_counter() - start
        taken = max(elapsed - (self._suspended_seconds() - suspended), 0.0)

    def _suspended_seconds(self) -> float:
        try:
            return float((self._directory / protocol.SUSPENDED).read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0.0

    def keep_input(self) -> None:
        """Read commands from a copy of standard input: code that asks for input gets none."""
        self._commands = os.dup(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def read_command(self) -> commands.Command:
        """Wait for the next command and return it; `Stop` at the end of standard input."""
        while b"\n" not in self._unread:
            received = os.read(self._commands, 4096)
            if not received:
                return commands.Stop()
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return commands.decode(line)

    def has_command(self, seconds: float) -> bool:
        """Return whether a command arrives within `seconds`, or standard input ends."""
        return b"\n" in self._unread or bool(select.select([self._commands], [], [], seconds)[0])

    def _notify(self) -> None:
        try:
            os.write(self._notify_fd, b".")
        except (BlockingIOError, BrokenPipeError):
            # With a full pipe the advisor wakes up anyway. With a broken pipe it is gone, and the
            # watchdog ends this process.
            return


def encode(message: Any) -> str:
    """Return JSON without escapes: the advisor could not read an escaped lone surrogate."""
    return json.dumps(replace_non_finite(dataclasses.asdict(message)), ensure_ascii=False)


def replace_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: replace_non_finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_non_finite(each) for each in value]
    return value
