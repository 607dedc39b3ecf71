"""The races of a run, one for each batch size: driven while it goes on, and run again from what was stored."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator

from advisor import fitness, measure, recommend
from advisor.domain.catalogue import GuardRules
from advisor.domain.events import Happening, RaceClosed, RaceOpened, Watched
from advisor.domain.measurement import RaceResult
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.state import RunState
from advisor.probing.visits import Session
from advisor.race import Race

#: Rounds without which a batch size says nothing: one round shows no spread.
FEWEST_ROUNDS = 2
OUT_OF_TIME = "the measuring time is spent"
#: How many times the measuring time a run may take on top of it to get every race its fewest rounds: an answer in doubt beats none.
OVERTIME = 5.0


def failed_arms(state: RunState) -> set[str]:
    """Return the arms that have ended otherwise than by being done."""
    return {arm for arm in state.processes if any(process.outcome for process in state.processes[arm]) and not measure.is_valid(state, arm)}


def needed_arms(state: RunState, question: Question) -> list[Arm]:
    """Return the arms that some race still has to visit, in the order of the plan."""
    plan = plan_of(state)
    failed = failed_arms(state)
    needed: set[str] = set()
    for size in question.batch_sizes:
        if size in state.closed:
            continue
        if size not in state.opened:
            return [arm for arm in plan.arms if arm.id not in failed]
        needed |= set(replay(state, size, question).due)
    return [arm for arm in plan.arms if arm.id in needed]


def plan_of(state: RunState) -> Plan:
    """Return the plan; a stored run always begins with it."""
    if state.plan is None:
        message = "the run has no plan"
        raise ValueError(message)
    return state.plan


def replay(state: RunState, batch_size: int, question: Question) -> Race:
    """Return the race of an opened batch size as far as it has come: same arms, same seed, same records, so the same verdict."""
    plan, entered = plan_of(state), state.opened[batch_size]
    duplicates = {arm.id for arm in plan.arms if arm.duplicate_of}
    contest = Race(
        [arm for arm in entered if arm not in duplicates],
        plan.baseline.id,
        epsilon=recommend.EPSILON,
        seed=question.seed + batch_size,
        always=[plan.baseline.id, *(arm for arm in entered if arm in duplicates)],
        most_rounds=question.budget.most_rounds,
    )
    failed = failed_arms(state)
    for _, visits in sorted(measure.rounds_of(state, batch_size).items()):
        if contest.finished or any(arm not in visits and arm not in failed for arm in contest.due):
            break  # the rest of a round that was interrupted is not counted: it is run again as a whole
        for arm in contest.next_round():
            if arm in visits:
                contest.record(arm, measure.block_value(visits[arm]))
            elif arm != contest.baseline:
                contest.withdraw(arm)
    for arm in failed & set(entered) - {contest.baseline}:
        contest.withdraw(arm)
    return contest


def result_of(state: RunState, batch_size: int, question: Question) -> RaceResult:
    """Return how the race of a batch size stands."""
    verdict = replay(state, batch_size, question).verdict
    return RaceResult(
        batch_size=batch_size,
        verdict=verdict.kind,
        best=verdict.best,
        tied=verdict.tied,
        unresolved=verdict.unresolved,
        rounds=verdict.rounds,
        eliminated=dict(verdict.eliminated),
        noise_floor=None,
        closed=state.closed.get(batch_size, "not closed yet"),
    )


def results_by_batch_size(state: RunState, question: Question) -> dict[int, RaceResult]:
    """Return the races that have enough rounds to say something."""
    results = {size: result_of(state, size, question) for size in question.batch_sizes if size in state.opened}
    return {size: result for size, result in results.items() if result.rounds >= FEWEST_ROUNDS}


@dataclasses.dataclass
class Discards:
    """The visits made so far, and those that did not count, by arm: however unfit the machine, a discard is the exception."""

    rules: GuardRules
    visits: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    discarded: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def make_visit(session: Session, arm: str, batch_size: int, number: int, discards: Discards) -> Iterator[Happening]:
    """Have one block timed, and again when the machine was not fit meanwhile and the rules allow it."""
    for attempt in itertools.count():
        yield from session.visit(arm, batch_size, number)
        if not session.is_running(arm):
            return
        conditions = session.last_conditions(arm)
        fault = fitness.find_fault(conditions, discards.rules)
        discarded = fault is not None and fitness.may_discard(discards.discarded[arm], discards.visits[arm], attempt, discards.rules)
        discards.visits[arm] += 1
        discards.discarded[arm] += discarded
        yield Watched(
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
class Patience:
    """How long a race may go on, on `clock`: to its deadline, and while it has too few rounds to say anything, to the last one."""

    clock: Callable[[], float]
    deadline: float
    last: float

    def is_over(self, rounds: int) -> bool:
        """Say whether a race that has come so far ends now."""
        return self.clock() >= (self.deadline if rounds >= FEWEST_ROUNDS else self.last)


def drive(
    session: Session, state: Callable[[], RunState], question: Question, rules: GuardRules, clock: Callable[[], float]
) -> Iterator[Happening]:
    """Race every batch size that is not closed, each with its share of what is left of the measuring time."""
    plan, discards = plan_of(state()), Discards(rules)
    end = clock() + question.budget.measuring_seconds
    open_sizes = [size for size in question.batch_sizes if size not in state().closed]
    for place, size in enumerate(open_sizes):
        if size not in state().opened:
            yield RaceOpened(batch_size=size, arms=tuple(arm.id for arm in plan.arms if session.is_running(arm.id)))
        now = clock()
        deadline = now + (end - now) / (len(open_sizes) - place)
        patience = Patience(clock, deadline, end + OVERTIME * question.budget.measuring_seconds)
        reason = yield from _race(session, replay(state(), size, question), size, discards, patience)
        yield RaceClosed(batch_size=size, reason=reason)


def _race(session: Session, contest: Race, batch_size: int, discards: Discards, patience: Patience) -> Generator[Happening, None, str]:
    """Visit round after round until the verdict stands or patience is at its end; return why it ended."""
    while not contest.finished:
        if patience.is_over(contest.rounds):
            return OUT_OF_TIME
        number = contest.rounds + 1
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
