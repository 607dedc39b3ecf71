"""A run while it is executed: the record of its events, and what its stages share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from advisor.domain.answer import Answer
from advisor.domain.catalogue import Presets
from advisor.domain.event_folding import fold
from advisor.domain.question import Question
from advisor.domain.recommendation import Decision
from advisor.domain.run_events import LoggedEvent, RunEvent
from advisor.domain.run_state import Header, RunState
from advisor.probing.session import WorkerSession
from advisor.probing.worker_pool import WorkerPool
from advisor.store.store import Store


class Recorder:
    """The state of a run, kept up to date while it is executed.

    `record_each` stores an event of a stage and folds it into `state` before it asks the stage for
    the next one, so that the stages see the state after their own events.
    """

    def __init__(
        self, state: RunState, clock: Callable[[], float], store: Callable[[LoggedEvent], None]
    ) -> None:
        """Continue the run from `state`; time stamps continue those of its events, in seconds."""
        self.state = state
        self._clock = clock
        self._store = store
        self._began = clock() - state.at

    def record(self, run_event: RunEvent) -> LoggedEvent:
        event = LoggedEvent(
            seq=self.state.seq + 1, at=self._clock() - self._began, run_event=run_event
        )
        self._store(event)
        self.state = fold([event], self.state)
        return event

    def record_each(self, run_events: Iterable[RunEvent]) -> Iterator[LoggedEvent]:
        for run_event in run_events:
            yield self.record(run_event)


class TimeSpan(NamedTuple):
    """The time of a run or of a part of it: stages ask it instead of comparing times themselves."""

    #: Seconds from an arbitrary origin.
    clock: Callable[[], float]
    start: float
    #: Infinite without a limit.
    seconds: float

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def is_over(self) -> bool:
        return self.clock() >= self.end

    def left(self) -> float:
        """Return the seconds until its end, 0 after it."""
        return max(self.end - self.clock(), 0.0)

    def part(self, share: float) -> TimeSpan:
        """Return what has the same start and this share of its seconds, which may be above 1."""
        return TimeSpan(self.clock, self.start, share * self.seconds)

    def within(self, seconds: float) -> TimeSpan:
        """Return the next `seconds`, or what is left if that is less."""
        return TimeSpan(self.clock, self.clock(), min(seconds, self.left()))

    def share_of(self, index: int, count: int) -> TimeSpan:
        """Return part `index` of `count`, which share what is left equally."""
        return self.within(self.left() / (count - index))


@dataclasses.dataclass(frozen=True)
class ActiveRun:
    """The workers, the record and the rules of one run."""

    session: WorkerSession
    recorder: Recorder
    header: Header
    #: Earlier runs.
    store: Store
    time: TimeSpan
    builds_at_once: int
    #: Decides on a state before the run has ended.
    answer_of: Callable[[RunState], Answer]
    #: Arms that the user skips before they start.
    to_skip: Collection[str] = ()

    @property
    def question(self) -> Question:
        return self.header.question

    @property
    def presets(self) -> Presets:
        return self.header.catalogue.presets

    @property
    def races(self) -> TimeSpan:
        """The time of all builds and races: the rest is for the repetition."""
        return self.time.part(self.question.budget.race_share)

    @property
    def pool(self) -> WorkerPool:
        return self.session.pool

    @property
    def state(self) -> RunState:
        return self.recorder.state

    def answer(self) -> Answer:
        """Decide on the run so far, which says what is measured next."""
        return self.answer_of(self.state)

    def decision(self) -> Decision | None:
        advice = self.answer().recommendation
        return advice.decision if advice is not None else None
