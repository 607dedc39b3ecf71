"""Follow a run while it goes on: from its file, whoever writes it, or from a recording played back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, WorkerReported
from advisor.domain.run_state import RunState, fold
from advisor.domain.worker_events import PhaseStarted
from advisor.store import Run


class Source(Protocol):
    """Where events come from."""

    def poll(self) -> list[LoggedEvent]:
        """Return what is new."""

    def now(self, last: float) -> float:
        """Return the run's time, given that of its last event."""


class Tail:
    """The end of a run's file."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._place = 0
        self._heard = clock()

    def poll(self) -> list[LoggedEvent]:
        """Return the events that were written since the last call."""
        events, self._place = self._run.events_after(self._place)
        if events:
            self._heard = self._clock()
        return events

    def now(self, last: float) -> float:
        """Return the time of the last event and what has passed since it was read."""
        return last + self._clock() - self._heard


class Recording:
    """A recorded run, played `speed` times as fast."""

    def __init__(self, run: Run, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = run.events()
        self._speed = speed
        self._clock = clock
        self._begun = clock()
        self._next = 0

    def poll(self) -> list[LoggedEvent]:
        """Return the events whose time has come."""
        now, first = self.now(0.0), self._next
        while self._next < len(self._events) and self._events[self._next].at <= now:
            self._next += 1
        return self._events[first : self._next]

    def now(self, last: float) -> float:  # noqa: ARG002 - a recording knows the time without it
        """Return the time in the recording."""
        return (self._clock() - self._begun) * self._speed


class Follower:
    """The state of one run as of the last look, and when each arm was last heard."""

    def __init__(self, run: Run, source: Source) -> None:
        self.run = run
        self.header: Header = run.header()
        self.source = source
        self.state = RunState()
        #: When each arm entered the phase it is in, on the run's clock.
        self.entered: dict[str, float] = {}
        #: The arm that was heard last: whoever works now, works on it.
        self.active: str | None = None

    def advance(self) -> bool:
        """Take in what is new; say whether anything was."""
        events = self.source.poll()
        for event in events:
            arm = getattr(event.run_event, "arm", None)
            if arm is None:
                continue
            self.active = arm
            is_phase = isinstance(event.run_event, WorkerReported) and isinstance(
                event.run_event.said, PhaseStarted
            )
            if is_phase or not isinstance(event.run_event, WorkerReported):
                self.entered[arm] = event.at
        self.state = fold(events, self.state)
        return bool(events)

    def now(self) -> float:
        """Return the run's time."""
        return (
            self.state.at
            if self.state.finished
            else max(self.source.now(self.state.at), self.state.at)
        )
