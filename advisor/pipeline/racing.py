"""The races of a run, one for each batch size: driven while it goes on, and run again from what was stored."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator

from advisor import measure
from advisor.domain.catalogue import GuardRules
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_events import ConditionsRecorded, RaceClosed, RaceOpened, RunEvent
from advisor.domain.run_state import RunState
from advisor.pipeline import visit_quality
from advisor.pipeline.arms import failed_arms, plan_of, raced_arms
from advisor.pipeline.remaining import oom_beside_others
from advisor.pipeline.replay import replay
from advisor.probing.session import Session
from advisor.statistics.race import LOOKS, Race

OUT_OF_TIME = "the measuring time is spent"
#: Rounds after which a race can decide anything: the interval of fewer differences is so wide that
#: the time spent on them is lost.
DECIDING_ROUNDS = LOOKS[0]
#: How many times the measuring time a run may take on top of it to get every race as far: an answer
#: in doubt beats none.
OVERTIME = 5.0


@dataclasses.dataclass
class Discards:
    """The visits made so far, and those that did not count, by arm: however unfit the machine, a discard is the exception."""

    rules: GuardRules
    visits: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    discarded: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def make_visit(
    session: Session, arm: str, batch_size: int, number: int, discards: Discards
) -> Iterator[RunEvent]:
    """Have one block timed, and again when the machine was not fit meanwhile and the rules allow it."""
    for attempt in itertools.count():
        yield from session.visit(arm, batch_size, number)
        if not session.is_running(arm):
            return
        conditions = session.last_conditions(arm)
        fault = visit_quality.find_fault(conditions, discards.rules)
        discarded = fault is not None and visit_quality.may_discard(
            discards.discarded[arm], discards.visits[arm], attempt, discards.rules
        )
        discards.visits[arm] += 1
        discards.discarded[arm] += discarded
        yield ConditionsRecorded(
            arm=arm,
            process=session.process_number(arm),
            batch_size=batch_size,
            round=number,
            conditions=conditions,
            unfit=fault,
            discarded=discarded,
        )
        if not discarded:
            return


@dataclasses.dataclass(frozen=True)
class RaceDeadline:
    """How long a race may go on, on `clock`: to its deadline, and while it has too few rounds to decide anything, to the last one."""

    clock: Callable[[], float]
    deadline: float
    last: float

    def is_over(self, rounds: int) -> bool:
        """Say whether a race that has come so far ends now."""
        return self.clock() >= (self.deadline if rounds >= DECIDING_ROUNDS else self.last)


def drive(
    session: Session,
    state: Callable[[], RunState],
    question: Question,
    rules: GuardRules,
    clock: Callable[[], float],
) -> Iterator[RunEvent]:
    """Race every batch size that is not closed, each with its share of what is left of the measuring time, while the baseline runs."""
    baseline, discards = plan_of(state()).baseline.id, Discards(rules)
    open_sizes = [
        size
        for size in question.batch_sizes
        if size not in state().closed or unraced(session, state(), size)
    ]
    end = clock() + question.budget.measuring_seconds * share_of_time(session, state(), question)
    for place, size in enumerate(open_sizes):
        is_open = size in state().opened and size not in state().closed
        arms = (
            state().opened[size]
            if is_open
            else tuple(arm.id for arm in built_arms(session, state()))
        )
        if baseline not in arms:
            return  # it ended in the race of another batch size: nothing can be compared any more
        if not is_open:
            yield RaceOpened(batch_size=size, arms=arms)
        now = clock()
        deadline = now + (end - now) / (len(open_sizes) - place)
        patience = RaceDeadline(clock, deadline, end + OVERTIME * question.budget.measuring_seconds)
        first_round = state().groups[size][-1].first_round
        reason = yield from _race(
            session, replay(state(), size, question), size, first_round, discards, patience
        )
        yield RaceClosed(batch_size=size, reason=reason)


def built_arms(session: Session, state: RunState) -> list[Arm]:
    """Return the arms whose workers are there and have built everything."""
    return [
        arm
        for arm in plan_of(state).arms
        if session.is_running(arm.id) and session.is_built(arm.id)
    ]


def unraced(session: Session, state: RunState, batch_size: int) -> set[str]:
    """Return the arms that are built and have not raced at a batch size yet."""
    raced = {arm for group in state.groups.get(batch_size, ()) for arm in group.arms}
    return {arm.id for arm in built_arms(session, state)} - raced


def share_of_time(session: Session, state: RunState, question: Question) -> float:
    """Return the share of the measuring time that this group gets: that of its arms among all that race for the first time or wait."""
    new = {arm for size in question.batch_sizes for arm in unraced(session, state, size)}
    waiting = (
        {arm.id for arm in plan_of(state).arms}
        - (failed_arms(state) - oom_beside_others(state))
        - {arm.id for arm in built_arms(session, state)}
    )
    return len(new) / len(new | waiting | raced_arms(state)) if new else 1.0


def _race(
    session: Session,
    contest: Race,
    batch_size: int,
    first_round: int,
    discards: Discards,
    patience: RaceDeadline,
) -> Generator[RunEvent, None, str]:
    """Visit round after round until the verdict stands or patience is at its end; return why it ended."""
    while not contest.finished:
        if patience.is_over(contest.rounds):
            return OUT_OF_TIME
        number = first_round + contest.rounds
        for arm in contest.next_round():
            if session.is_running(arm):
                yield from make_visit(session, arm, batch_size, number, discards)
            visit = session.last_visit(arm)
            if session.is_running(arm) and visit is not None:
                contest.record(arm, measure.block_value(visit))
            elif arm == contest.baseline:
                return "the baseline ended"
            else:
                contest.withdraw(arm)
    return f"the verdict stands: {contest.verdict.kind}"
