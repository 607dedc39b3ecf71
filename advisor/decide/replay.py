"""Rebuild the races of a run from its stored events."""

from __future__ import annotations

import math
import sys

from advisor.decide.race import Race
from advisor.decide.rounds import (
    failed_arms,
    log_median_seconds,
    mean_log_speedups,
    plan_of,
    visits_by_round,
)
from advisor.domain.question import Question
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RaceGroup, RunState
from probes.wire.shape import Shape

#: Fewest rounds of a batch size that count: one round has no spread.
FEWEST_ROUNDS = 2
LAST_ROUND = sys.maxsize
#: `RaceResult.closed` of a race that is still open.
STILL_OPEN = "not closed yet"


def replay_race(state: RunState, shape: Shape, question: Question, index: int = -1) -> Race:
    """Return the race of one group of a batch size, as far as it has been run.

    `index` selects the group; the default is the last one. The same arms, seed and records give
    the same result as in the run.
    """
    plan, groups = plan_of(state), state.groups[shape]
    group, rounds = groups[index], _rounds_of(groups[index], groups)
    duplicates = {arm.id for arm in plan.arms if arm.duplicate_of}
    race = Race(
        [arm for arm in group.arms if arm not in duplicates],
        plan.baseline.id,
        seed=question.seed + shape.batch_size + (shape.input_tokens or 0) + group.first_round - 1,
        always=[plan.baseline.id, *(arm for arm in group.arms if arm in duplicates)],
        most_rounds=question.budget.most_rounds,
    )
    failed = failed_arms(state)
    for number, visits in sorted(visits_by_round(state, shape).items()):
        if number not in rounds:
            continue
        if race.finished or any(arm not in visits and arm not in failed for arm in race.due):
            break  # An interrupted round does not count; the whole round is run again.
        for arm in race.next_round():
            if arm in visits:
                race.record(arm, log_median_seconds(visits[arm]))
            elif arm != race.baseline:
                race.withdraw(arm)
    for arm in failed & set(group.arms) - {race.baseline}:
        race.withdraw(arm)
    return race


def _rounds_of(group: RaceGroup, groups: tuple[RaceGroup, ...]) -> range:
    """Return the round numbers of a group, which end where the next group's rounds begin."""
    later = [other.first_round for other in groups if other.first_round > group.first_round]
    return range(group.first_round, min(later, default=LAST_ROUND))


def race_result(state: RunState, shape: Shape, question: Question) -> RaceResult:
    """Return the result of a batch size over all its groups, as far as they have been run.

    What counts of an arm is the last group that it raced in. Best arms of groups may not have raced
    each other; the one with the largest mean speed-up over the baseline is then the best.
    """
    best_of_groups: list[str] = []
    eliminated: dict[str, int] = {}
    rounds = 0
    for index, group in enumerate(state.groups[shape]):
        race = replay_race(state, shape, question, index)
        before = group.first_round - 1
        best_of_groups = [arm for arm in best_of_groups if arm not in race.arms] + [race.best]
        eliminated = {arm: number for arm, number in eliminated.items() if arm not in race.arms}
        eliminated |= {arm: number + before for arm, number in race.eliminated.items()}
        rounds = race.rounds + before
    speedups, closed = mean_log_speedups(state, shape), state.closed.get(shape)
    return RaceResult(
        shape=shape,
        best=max(best_of_groups, key=lambda arm: speedups.get(arm, -math.inf)),
        rounds=rounds,
        eliminated=eliminated,
        noise_floor=None,
        closed=closed.reason if closed else STILL_OPEN,
    )


def results_by_shape(state: RunState, question: Question) -> dict[Shape, RaceResult]:
    """Return the results of the batch sizes that have at least `FEWEST_ROUNDS` rounds."""
    results = {
        shape: race_result(state, shape, question)
        for shape in question.shapes
        if state.groups.get(shape)
    }
    return {shape: result for shape, result in results.items() if result.rounds >= FEWEST_ROUNDS}
