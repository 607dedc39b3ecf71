"""Follow the state of a run, from its event file or from a recording that is played back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from advisor.domain.event_folding import fold
from advisor.domain.run import Header
from advisor.domain.run_events import LoggedEvent, WorkerReported
from advisor.domain.run_state import RunState
from advisor.store.runs import Run
from probes.wire.events import PhaseStarted


class EventSource(Protocol):
    """Delivers the events of a run."""

    def poll(self) -> list[LoggedEvent]:
        """Return the events since the previous call."""

    def now(self, last: float) -> float:
        """Return the current run time in seconds, given the time of the last event."""


class EventFileTail:
    """Reads new events from the file of a run that another process may be writing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._offset = 0
        self._read_at = time.monotonic()

    def poll(self) -> list[LoggedEvent]:
        events, self._offset = self._run.read_events_after(self._offset)
        if events:
            self._read_at = time.monotonic()
        return events

    def now(self, last: float) -> float:
        return last + time.monotonic() - self._read_at


class RecordingPlayback:
    """Plays a recorded run back, `speed` times as fast as it was recorded."""

    def __init__(self, run: Run, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = run.events()
        self._speed = speed
        self._clock = clock
        self._started_at = clock()
        self._next = 0

    def poll(self) -> list[LoggedEvent]:
        now, first = self.now(0.0), self._next
        while self._next < len(self._events) and self._events[self._next].at <= now:
            self._next += 1
        return self._events[first : self._next]

    def now(self, last: float) -> float:  # noqa: ARG002 - the playback has its own clock
        return (self._clock() - self._started_at) * self._speed


class RunFollower:
    """The state of one run after the events read so far."""

    def __init__(self, run: Run, source: EventSource) -> None:
        self.run = run
        self.header: Header = run.header()
        self.source = source
        self.state = RunState()
        #: By arm, the run time in seconds at which its current phase began.
        self.phase_entered_at: dict[str, float] = {}
        #: The arm of the last event.
        self.active_arm: str | None = None

    def read_new_events(self) -> None:
        """Apply the events since the previous call."""
        events = self.source.poll()
        for event in events:
            run_event = event.run_event
            arm = getattr(run_event, "arm", None)
            if arm is None:
                continue
            self.active_arm = arm
            if not isinstance(run_event, WorkerReported) or isinstance(
                run_event.worker_event, PhaseStarted
            ):
                self.phase_entered_at[arm] = event.at
        self.state = fold(events, self.state)

    def now(self) -> float:
        """Return the current run time in seconds; it stops when the run finishes."""
        if self.state.finished:
            return self.state.at
        return max(self.source.now(self.state.at), self.state.at)
