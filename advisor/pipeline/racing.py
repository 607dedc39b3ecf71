"""The races of a run, one for each batch size: driven while it goes on, and run again from what was stored."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Generator, Iterator

from advisor import fitness, measure, recommend
from advisor.domain.catalogue import GuardRules
from advisor.domain.events import Happening, RaceClosed, RaceOpened, Watched
from advisor.domain.measurement import RaceResult
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.state import RaceGroup, RunState
from advisor.pipeline import joining
from advisor.probing.visits import Session
from advisor.race import LOOKS, Race

#: Rounds without which a batch size says nothing: one round shows no spread.
FEWEST_ROUNDS = 2
LAST_ROUND = sys.maxsize
OUT_OF_TIME = "the measuring time is spent"
#: Rounds after which a race can decide anything: the interval of fewer differences is so wide that the time spent on them is lost.
DECIDING_ROUNDS = LOOKS[0]
#: How many times the measuring time a run may take on top of it to get every race as far: an answer in doubt beats none.
OVERTIME = 5.0


def failed_arms(state: RunState) -> set[str]:
    """Return the arms that have ended otherwise than by being done."""
    return {arm for arm in state.processes if any(process.outcome for process in state.processes[arm]) and not measure.is_valid(state, arm)}


def needed_arms(state: RunState, question: Question) -> list[Arm]:
    """Return the arms that some race still has to visit, in the order of the plan."""
    plan = plan_of(state)
    failed = failed_arms(state)
    if plan.baseline.id in failed:
        return []
    needed: set[str] = set()
    for size in question.batch_sizes:
        if size in state.opened and size not in state.closed:
            needed |= set(replay(state, size, question).due)
        elif size not in state.opened:
            needed |= {arm.id for arm in plan.arms if arm.id not in failed}
    waiting = waiting_arms(state, question)
    if waiting:
        needed |= {*waiting, *keepers(state, question)}
    # Who is in a race that has begun comes first: those that wait must not take the memory. Then whoever has lacked it before.
    crowded_out = crowded_out_arms(state)
    return sorted((arm for arm in plan.arms if arm.id in needed), key=lambda arm: (arm.id in waiting, arm.id not in crowded_out))


def raced_arms(state: RunState) -> set[str]:
    """Return the arms that a race has had."""
    return {arm for groups in state.groups.values() for group in groups for arm in group.arms}


def waiting_arms(state: RunState, question: Question) -> set[str]:
    """Return the arms that no race has had yet, though there has been one: memory was short for them."""
    if not all(size in state.opened for size in question.batch_sizes):
        return set()
    return (
        {arm.id for arm in plan_of(state).arms if not arm.duplicate_of} - raced_arms(state) - (failed_arms(state) - crowded_out_arms(state))
    )


def crowded_out_arms(state: RunState) -> set[str]:
    """Return the arms that ran out of memory beside more than the baseline, its duplicate and one best: with fewer they may fit."""
    always = constant_arms(state)
    return {arm for arm, processes in state.processes.items() if processes and len(set(processes[-1].beside) - always) > 1}


def constant_arms(state: RunState) -> set[str]:
    """Return the baseline and its duplicate, which are in every group: without them nothing can be said."""
    plan = plan_of(state)
    return {plan.baseline.id, *(arm.id for arm in plan.arms if arm.duplicate_of)}


def keepers(state: RunState, question: Question) -> set[str]:
    """Return the arms that stay for the next group: the baseline with its duplicate, and the best so far."""
    return {*constant_arms(state), *staying_bests(state, question)} - failed_arms(state)


def staying_bests(state: RunState, question: Question) -> list[str]:
    """Return the best so far of each batch size, who is it most often first, without those that had to make room; at least one."""
    counted = collections.Counter(result.best for result in results_by_batch_size(state, question).values())
    bests = [arm for arm, _ in counted.most_common() if arm != plan_of(state).baseline.id]
    return [arm for arm in bests if state.processes[arm][-1].outcome is None] or bests[:1]


def plan_of(state: RunState) -> Plan:
    """Return the plan; a stored run always begins with it."""
    if state.plan is None:
        message = "the run has no plan"
        raise ValueError(message)
    return state.plan


def replay(state: RunState, batch_size: int, question: Question, place: int = -1) -> Race:
    """Return the race of a batch size's last group, or that at `place`, as far as it has come.

    Same arms, same seed, same records, so the same verdict.
    """
    plan, group = plan_of(state), state.groups[batch_size][place]
    entered, later = group.arms, [other.first_round for other in state.groups[batch_size] if other.first_round > group.first_round]
    rounds = range(group.first_round, min(later, default=LAST_ROUND))
    duplicates = {arm.id for arm in plan.arms if arm.duplicate_of}
    contest = Race(
        [arm for arm in entered if arm not in duplicates],
        plan.baseline.id,
        epsilon=recommend.EPSILON,
        seed=question.seed + batch_size + group.first_round - 1,
        always=[plan.baseline.id, *(arm for arm in entered if arm in duplicates)],
        most_rounds=question.budget.most_rounds,
    )
    failed = failed_arms(state)
    for _, visits in sorted((number, each) for number, each in measure.rounds_of(state, batch_size).items() if number in rounds):
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
    """Return how the race of a batch size stands, over all its groups."""
    failed = failed_arms(state)
    speedups = measure.mean_log_speedups(state, batch_size)
    verdict = functools.reduce(
        lambda earlier, later: joining.join_verdicts(earlier, later, speedups),
        (joining.count_on(replay(state, batch_size, question, place).verdict, group) for place, group in contests(state, batch_size)),
    )
    return RaceResult(
        batch_size=batch_size,
        verdict=verdict.kind,
        best=verdict.best,
        tied=verdict.tied,
        unresolved=tuple(arm for arm in verdict.unresolved if arm not in failed),
        rounds=verdict.rounds,
        eliminated=dict(verdict.eliminated),
        noise_floor=None,
        closed=state.closed.get(batch_size, "not closed yet"),
    )


def contests(state: RunState, batch_size: int) -> list[tuple[int, RaceGroup]]:
    """Return the groups of a batch size with their places; one without the baseline, which earlier versions opened, shows nothing."""
    baseline = plan_of(state).baseline.id
    return [(place, group) for place, group in enumerate(state.groups.get(batch_size, ())) if baseline in group.arms]


def results_by_batch_size(state: RunState, question: Question) -> dict[int, RaceResult]:
    """Return the races that have enough rounds to say something."""
    results = {size: result_of(state, size, question) for size in question.batch_sizes if contests(state, size)}
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
    """How long a race may go on, on `clock`: to its deadline, and while it has too few rounds to decide anything, to the last one."""

    clock: Callable[[], float]
    deadline: float
    last: float

    def is_over(self, rounds: int) -> bool:
        """Say whether a race that has come so far ends now."""
        return self.clock() >= (self.deadline if rounds >= DECIDING_ROUNDS else self.last)


def drive(
    session: Session, state: Callable[[], RunState], question: Question, rules: GuardRules, clock: Callable[[], float]
) -> Iterator[Happening]:
    """Race every batch size that is not closed, each with its share of what is left of the measuring time, while the baseline runs."""
    baseline, discards = plan_of(state()).baseline.id, Discards(rules)
    open_sizes = [size for size in question.batch_sizes if size not in state().closed or newcomers(session, state(), size)]
    end = clock() + question.budget.measuring_seconds * share_of_time(session, state(), question)
    for place, size in enumerate(open_sizes):
        is_open = size in state().opened and size not in state().closed
        arms = state().opened[size] if is_open else tuple(arm.id for arm in built_arms(session, state()))
        if baseline not in arms:
            return  # it ended in the race of another batch size: nothing can be compared any more
        if not is_open:
            yield RaceOpened(batch_size=size, arms=arms)
        now = clock()
        deadline = now + (end - now) / (len(open_sizes) - place)
        patience = Patience(clock, deadline, end + OVERTIME * question.budget.measuring_seconds)
        first_round = state().groups[size][-1].first_round
        reason = yield from _race(session, replay(state(), size, question), size, first_round, discards, patience)
        yield RaceClosed(batch_size=size, reason=reason)


def built_arms(session: Session, state: RunState) -> list[Arm]:
    """Return the arms whose workers are there and have built everything."""
    return [arm for arm in plan_of(state).arms if session.is_running(arm.id) and session.is_built(arm.id)]


def newcomers(session: Session, state: RunState, batch_size: int) -> set[str]:
    """Return the arms that are built and have not raced at a batch size yet."""
    raced = {arm for group in state.groups.get(batch_size, ()) for arm in group.arms}
    return {arm.id for arm in built_arms(session, state)} - raced


def share_of_time(session: Session, state: RunState, question: Question) -> float:
    """Return the share of the measuring time that this group gets: that of its arms among all that race for the first time or wait."""
    new = {arm for size in question.batch_sizes for arm in newcomers(session, state, size)}
    waiting = (
        {arm.id for arm in plan_of(state).arms}
        - (failed_arms(state) - crowded_out_arms(state))
        - {arm.id for arm in built_arms(session, state)}
    )
    return len(new) / len(new | waiting | raced_arms(state)) if new else 1.0


def _race(
    session: Session,
    contest: Race,
    batch_size: int,
    first_round: int,
    discards: Discards,
    patience: Patience,
) -> Generator[Happening, None, str]:
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
