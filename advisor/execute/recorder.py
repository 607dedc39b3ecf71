"""Number, store and fold the events of a run in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from advisor.domain.event_folding import fold
from advisor.domain.run_events import LoggedEvent, RunEvent
from advisor.domain.run_state import RunState


class Recorder:
    """The state of a run in progress.

    An event is stored and folded into `state` before it is yielded. The generators of the pipeline
    therefore see the state after their own events, whether or not the consumer keeps a state.
    """

    def __init__(
        self,
        state: RunState,
        clock: Callable[[], float],
        store: Callable[[LoggedEvent], None] | None = None,
    ) -> None:
        """Continue the run from `state`; time stamps go on from its last event, in seconds."""
        self.state = state
        self._clock = clock
        self._store = store
        self._start_seconds = clock() - state.at

    def record(self, run_event: RunEvent) -> LoggedEvent:
        """Store one event, fold it into the state and return it with its number and time."""
        event = LoggedEvent(
            seq=self.state.seq + 1, at=self._clock() - self._start_seconds, run_event=run_event
        )
        if self._store is not None:
            self._store(event)
        self.state = fold([event], self.state)
        return event

    def record_each(self, run_events: Iterable[RunEvent]) -> Iterator[LoggedEvent]:
        """Record the events one by one; yield each after it is recorded."""
        for run_event in run_events:
            yield self.record(run_event)
