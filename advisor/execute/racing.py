"""Race the built arms at each shape, round after round.

Whether the machine was fit for measurements during a visit is decided by limits that are fixed
beforehand in `rubric/presets.toml`.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from advisor.decide.race import FEWEST_ROUNDS, LOOKS, Race, replay_race
from advisor.decide.rounds import log_median_seconds
from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.recommendation import Decision
from advisor.domain.run_events import ConditionsRecorded, RaceClosed, RaceOpened, RunEvent
from advisor.domain.run_state import RunState
from advisor.execute.active_run import ActiveRun, TimeSpan
from advisor.execute.remaining import oom_beside_others, retained
from advisor.probing.conditions import find_disturbance
from advisor.probing.session import WorkerSession
from probes.shape import Shape

#: Rounds before a race can decide anything. A race that is closed earlier is wasted: the intervals
#: of its differences are too wide.
DECIDING_ROUNDS = LOOKS[0]
#: Measuring times that a run may add until each shape has a race of `DECIDING_ROUNDS` rounds: an
#: uncertain answer is worth more than none.
OVERTIME = 5.0


@dataclasses.dataclass
class DiscardCounts:
    """Visits of each arm so far, and how many of them were discarded.

    The limits keep discards the exception, however disturbed the machine is.
    """

    limits: VisitQualityLimits
    visits: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    discarded: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def measure_visit(
    session: WorkerSession, arm: str, shape: Shape, number: int, counts: DiscardCounts
) -> Iterator[RunEvent]:
    """Make a visit, again if the machine was disturbed meanwhile and the limits allow it."""
    for attempt in itertools.count():
        yield from session.visit(arm, shape, number)
        worker = session.pool.workers[arm]
        if worker.outcome is not None:
            return
        conditions = worker.last_conditions
        disturbance = find_disturbance(worker.last_visit, conditions, counts.limits)
        is_discarded = disturbance is not None and may_discard(
            counts.discarded[arm], counts.visits[arm], attempt, counts.limits
        )
        counts.visits[arm] += 1
        counts.discarded[arm] += is_discarded
        yield ConditionsRecorded(
            arm=arm,
            process=worker.process,
            shape=shape,
            round=number,
            conditions=conditions,
            unfit=disturbance,
            discarded=is_discarded,
        )
        if not is_discarded:
            return


class RaceEnds(NamedTuple):
    """When a race must end, by its complete rounds."""

    #: With `DECIDING_ROUNDS` rounds or more, and with fewer.
    decided: TimeSpan
    last: TimeSpan

    def after(self, rounds: int) -> TimeSpan:
        return self.decided if rounds >= DECIDING_ROUNDS else self.last


#: Returns whether a race may end after its last complete round.
MayEnd = Callable[[Race], bool]
#: Half of an interval that is narrow enough, as a logarithm: 5 %, or this share of the logarithm of
#: the speed-up, because what a gain of 4x is worth does not depend on 5 %.
NARROW, NARROW_SHARE = math.log(1.05), 0.1
#: Intervals may be this many times as wide where they decide all the same.
DECIDED_TIMES = 2.0
#: An interval that kept this share of its width between two looks has stopped shrinking.
STALLED_SHARE = 0.9


def ends_at_first_look(race: Race) -> bool:
    """Return whether the race has enough rounds for a first answer; its arms race again later."""
    return race.rounds >= DECIDING_ROUNDS and race.is_look


@dataclasses.dataclass
class StopRule:
    """When a race may end: an answer exists, and its intervals are narrow or shrink no further."""

    #: Decides with what has been measured so far.
    decide: Callable[[], Decision | None]
    #: Whether intervals need not be narrow where the decision is certain.
    serves_decision: bool = False
    _half_widths: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def may_end(self, race: Race) -> bool:
        if race.rounds < DECIDING_ROUNDS or not race.is_look:
            return False
        before, ratios = self._half_widths, race.log_ratios()
        self._half_widths = {arm: (each.high - each.low) / 2 for arm, each in ratios.items()}
        widths = (
            half / max(NARROW, NARROW_SHARE * abs(ratios[arm].value))
            for arm, half in self._half_widths.items()
            if half <= STALLED_SHARE * before.get(arm, math.inf)
        )
        width = max(widths, default=0.0)
        if width > (DECIDED_TIMES if self.serves_decision else 1.0):
            return False
        decision = self.decide()
        if decision is None or decision.word == "OPEN":
            return False
        return width <= 1 or decision.certain


def race_shapes(active: ActiveRun) -> Iterator[RunEvent]:
    """Race the arms at each shape, with equal shares of the measuring time that is left.

    It stops when the baseline has ended. After the end of races, arms that join late race against
    the baselines and leaders alone.
    """
    question = active.question
    counts = DiscardCounts(active.presets.visit_limits)
    built = {*raceable_arms(active)}
    new = built - active.state.raced_arms
    open_shapes = [
        shape
        for shape in question.shapes
        if shape not in active.state.closed or built - _arms_raced_at(active.state, shape)
    ]
    seconds, time = question.budget.measuring_seconds, active.time
    measuring = active.races.within(seconds * _share_of_measuring_time(active))
    for index, shape in enumerate(open_shapes):
        is_open = shape in active.state.last_groups and shape not in active.state.closed
        raceable = tuple(raceable_arms(active))
        if is_open:
            arms = active.state.last_groups[shape]
        elif not active.races.is_over():
            arms = raceable
        else:
            needed = new | retained(active.state, question)
            arms = tuple(arm for arm in raceable if arm in needed)
        if active.state.plan.baseline.id not in arms:
            return  # The baseline ended in an earlier race: no speedup can be measured.
        if not is_open:
            yield RaceOpened(shape=shape, arms=arms)
        decided, last = (each.share_of(index, len(open_shapes)) for each in (measuring, time))
        if len(active.state.groups[shape]) == 1:
            last = last._replace(seconds=min(max(last.seconds, seconds), OVERTIME * seconds))
        race = replay_race(active.state, shape, question)
        all_arms = {each.id for each in active.state.plan.arms}
        waiting = all_arms - active.state.failed_arms - {*raceable}
        # Arms that are not built yet will race together with those that are.
        is_early = bool(waiting) and active.pool.headroom.fits_another_worker()
        rule = StopRule(active.decision, question.budget.skips_losing_arms)
        may_end = ends_at_first_look if is_early else rule.may_end
        yield from _run_rounds(active, race, shape, counts, RaceEnds(decided, last), may_end)


def raceable_arms(active: ActiveRun) -> list[str]:
    """Return the arms that can race, in build order."""
    pool, state = active.pool, active.state
    return [
        each.id
        for each in state.plan.arms
        if pool.is_running(each.id)
        and pool.is_warmed_up(each.id)
        and state.varying_sibling(each.id) is None
    ]


def _arms_raced_at(state: RunState, shape: Shape) -> set[str]:
    return {arm for group in state.groups.get(shape, ()) for arm in group.arms}


def _share_of_measuring_time(active: ActiveRun) -> float:
    """Return the share of the measuring time for the next group.

    It is the group's unraced arms over these, the arms that wait and the arms that have raced. The
    last group gets all of it if every arm is still resident: the earlier races ended early then.
    """
    state, built = active.state, {*raceable_arms(active)}
    raced, failed = state.raced_arms, state.failed_arms
    unraced = {
        arm for shape in active.question.shapes for arm in built - _arms_raced_at(state, shape)
    }
    all_arms = {each.id for each in state.plan.arms}
    waiting = all_arms - (failed - oom_beside_others(state)) - built
    races_all_again = not waiting and raced - failed <= built
    if not unraced or races_all_again:
        return 1.0
    return len(unraced) / len(unraced | waiting | raced)


def _run_rounds(
    active: ActiveRun,
    race: Race,
    shape: Shape,
    counts: DiscardCounts,
    ends: RaceEnds,
    may_end: MayEnd,
) -> Iterator[RunEvent]:
    """Run rounds until the race may end, then close it.

    The fewest that count are made even at the end of the run: without them, the build of an arm
    that joins late would be wasted.
    """
    session, pool = active.session, active.pool
    first_round = active.state.groups[shape][-1].first_round
    while not race.finished and not may_end(race):
        if race.rounds >= FEWEST_ROUNDS and ends.after(race.rounds).is_over():
            reason = "the measuring time is spent"
            yield RaceClosed(shape=shape, reason=reason, cause="out-of-time")
            return
        number = first_round + race.rounds
        for arm in race.next_round():
            if pool.is_running(arm):
                yield from measure_visit(session, arm, shape, number, counts)
            visit = pool.workers[arm].last_visit if pool.is_running(arm) else None
            if visit is not None:
                race.record(arm, log_median_seconds(visit))
            elif arm == race.baseline:
                yield RaceClosed(shape=shape, reason="the baseline ended", cause="baseline-ended")
                return
            else:
                race.withdraw(arm)
    reason = f"ended after {race.rounds} rounds"
    yield RaceClosed(shape=shape, reason=reason, cause="decided")


def may_discard(discarded: int, visits: int, attempt: int, limits: VisitQualityLimits) -> bool:
    """Return whether one more visit may be repeated; `attempt` counts from 0 in each round."""
    return attempt < limits.retries and discarded + 1 <= max(
        limits.most_discarded_share * (visits + 1), 1
    )
