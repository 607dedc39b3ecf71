"""Race the leaders further while the decision is OPEN and more rounds may settle it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.question import Question
from advisor.domain.run_events import LoggedEvent, RaceOpened
from advisor.domain.run_state import RunState
from advisor.pipeline.decision import Decision
from advisor.pipeline.races import racing
from advisor.pipeline.races.leaders import leaders_of, seconds_while_open, while_open
from advisor.pipeline.recorder import Recorder
from advisor.pipeline.stored.arms import plan_of
from advisor.pipeline.stored.replay import replay_race
from advisor.probing.session import Session

#: Fewest arms that can be compared: the baseline and one more.
FEWEST_ARMS = 2


def race_leaders(
    session: Session,
    recorder: Recorder,
    question: Question,
    limits: VisitQualityLimits,
    clock: Callable[[], float],
    evaluate: Callable[[RunState], Decision],
) -> Iterator[LoggedEvent]:
    """Race the leaders and the duplicate in turns of a few rounds of every batch size.

    Stop when the decision is made, when no further rounds can settle it, or when the seconds of
    the budget for open decisions are spent. The batch sizes alternate, so that each sees the
    machine at several times.
    """
    seconds = seconds_while_open(question, recorder.state)
    end = clock() + seconds
    open_decision = while_open(recorder, question, clock, evaluate)
    counts = racing.DiscardCounts(limits)
    while decision := open_decision():
        for size in question.batch_sizes:
            arms = _arms_to_race(session, decision)
            if plan_of(recorder.state).baseline.id not in arms or len(arms) < FEWEST_ARMS:
                return
            yield recorder.record(RaceOpened(batch_size=size, arms=arms))
            closed = yield from racing.run_rounds(
                session,
                recorder,
                replay_race(recorder.state, size, question),
                size,
                counts,
                racing.RaceDeadline(clock, end, end + seconds),
                racing.ends_at_first_look,
            )
            yield recorder.record(closed)


def _arms_to_race(session: Session, decision: Decision) -> tuple[str, ...]:
    """Return the leaders and the duplicate of the baseline, as far as their workers run."""
    leaders = {arm.id for arm in leaders_of(decision)}
    return tuple(
        arm.id
        for arm in plan_of(decision.state).arms
        if (arm.id in leaders or arm.duplicate_of) and session.is_running(arm.id)
    )
