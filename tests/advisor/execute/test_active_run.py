"""Events of a run are numbered, stored and folded in their order."""

from __future__ import annotations

import builders
import pytest

from advisor.domain.run_events import ArmsPlanned, Finished, LoggedEvent, Resumed
from advisor.domain.run_state import RunState
from advisor.execute.active_run import Recorder, TimeSpan


def test_an_event_is_stored_and_folded_before_it_is_yielded() -> None:
    stored: list[LoggedEvent] = []
    recorder = Recorder(RunState(), clock=lambda: 0.0, store=stored.append)
    plan = builders.plan("compiled")
    events = recorder.record_each([ArmsPlanned(plan=plan), Finished()])
    first = next(events)
    assert stored == [first]
    assert recorder.state.plan == plan
    assert not recorder.state.finished
    assert stored == [first, next(events)]
    assert recorder.state.finished


def test_numbers_and_times_continue_from_the_last_event() -> None:
    seconds = iter([100.0, 100.5, 102.0])
    recorder = Recorder(RunState(seq=7, at=40.0), clock=lambda: next(seconds), store=lambda _: None)
    events = [recorder.record(Resumed()), recorder.record(Resumed())]
    assert [(event.seq, event.at) for event in events] == [(8, 40.5), (9, 42.0)]


def test_an_event_that_cannot_be_stored_is_not_folded() -> None:
    def fail(_: LoggedEvent) -> None:
        raise OSError

    recorder = Recorder(RunState(), clock=lambda: 0.0, store=fail)
    with pytest.raises(OSError):  # noqa: PT011 - any will do
        recorder.record(Finished())
    assert recorder.state == RunState()


def test_parts_share_what_is_left() -> None:
    span = TimeSpan(lambda: 40.0, 0.0, 100.0)
    assert [span.share_of(index, 3).end for index in range(3)] == [60.0, 70.0, 100.0]
    assert (span.within(80.0).end, span.part(0.3).left()) == (100.0, 0.0)
