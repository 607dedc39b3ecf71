"""Rebuild the races of a run from its stored events."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Mapping

from advisor.decide.race import Race, Verdict
from advisor.decide.rounds import (
    failed_arms,
    log_median_seconds,
    mean_log_speedups,
    plan_of,
    visits_by_round,
)
from advisor.domain.question import Question
from advisor.domain.results import EQUIVALENCE_MARGIN, VERDICTS_BY_STRENGTH, RaceResult, VerdictKind
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
    the same verdict as in the run.
    """
    plan, groups = plan_of(state), state.groups[shape]
    group, rounds = groups[index], _rounds_of(groups[index], groups)
    duplicates = {arm.id for arm in plan.arms if arm.duplicate_of}
    race = Race(
        [arm for arm in group.arms if arm not in duplicates],
        plan.baseline.id,
        epsilon=EQUIVALENCE_MARGIN,
        seed=question.seed + shape.batch_size + (shape.input_tokens or 0) + group.first_round - 1,
        always=[plan.baseline.id, *(arm for arm in group.arms if arm in duplicates)],
        most_rounds=question.budget.most_rounds,
    )
    race.ends_with_verdict = False  # `racing` decides, from all that the run has measured
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
    """Return the result of a batch size over all its groups, as far as they have been run."""
    failed = failed_arms(state)
    speedups = mean_log_speedups(state, shape)
    verdict = functools.reduce(
        lambda earlier, later: merge_verdicts(earlier, later, speedups),
        (
            offset_rounds(replay_race(state, shape, question, index).verdict, group)
            for index, group in enumerate(state.groups[shape])
        ),
    )
    closed = state.closed.get(shape)
    return RaceResult(
        shape=shape,
        verdict=verdict.kind,
        best=verdict.best,
        tied=verdict.tied,
        unresolved=tuple(arm for arm in verdict.unresolved if arm not in failed),
        rounds=verdict.rounds,
        eliminated=dict(verdict.eliminated),
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


def offset_rounds(verdict: Verdict, group: RaceGroup) -> Verdict:
    """Return a group's verdict with its rounds numbered after those of the earlier groups."""
    before = group.first_round - 1
    eliminated = {arm: number + before for arm, number in verdict.eliminated.items()}
    return dataclasses.replace(verdict, rounds=verdict.rounds + before, eliminated=eliminated)


def merge_verdicts(earlier: Verdict, later: Verdict, log_speedups: Mapping[str, float]) -> Verdict:
    """Return the verdict of two groups together.

    Arms that the earlier group left open stay open. If both groups have the same best arm, they
    keep their status; otherwise they are unresolved, because they never raced the new best arm.
    If memory left no place for the earlier best arm in the later group, it stays the best unless
    an arm that it has not raced has a larger mean speedup over the baseline.
    """
    decided = arms_in(later)
    is_absent, have_met = earlier.best not in decided, later.best in arms_in(earlier)
    if is_absent and (
        have_met
        or log_speedup_of(earlier.best, log_speedups) >= log_speedup_of(later.best, log_speedups)
    ):
        return _keep_best(earlier, later)
    tied = [arm for arm in earlier.tied if arm not in decided]
    unresolved = [arm for arm in earlier.unresolved if arm not in decided]
    kind: VerdictKind = later.kind
    if earlier.best != later.best:
        tied, unresolved = [], [*tied, *unresolved]
        kind = "INCONCLUSIVE" if unresolved else kind
    elif tied or unresolved:
        kind = max(kind, earlier.kind, key=VERDICTS_BY_STRENGTH.index)
    return Verdict(
        kind=kind,
        best=later.best,
        tied=(*later.tied, *tied),
        unresolved=(*later.unresolved, *unresolved),
        rounds=later.rounds,
        eliminated={
            **{arm: number for arm, number in earlier.eliminated.items() if arm not in decided},
            **later.eliminated,
        },
    )


def _keep_best(earlier: Verdict, later: Verdict) -> Verdict:
    """Return the earlier verdict with the arms of the later group added.

    An added arm that the later group did not eliminate is unresolved.
    """
    decided = arms_in(earlier)
    unresolved = [arm for arm in (*later.tied, *later.unresolved) if arm not in decided]
    return Verdict(
        kind="INCONCLUSIVE" if unresolved else earlier.kind,
        best=earlier.best,
        tied=earlier.tied,
        unresolved=(*earlier.unresolved, *unresolved),
        rounds=later.rounds,
        eliminated={
            **{arm: number for arm, number in later.eliminated.items() if arm not in decided},
            **earlier.eliminated,
        },
    )


def arms_in(verdict: Verdict) -> set[str]:
    """Return the arms that took part in the race of a verdict."""
    return {verdict.best, *verdict.tied, *verdict.unresolved, *verdict.eliminated}


def log_speedup_of(arm: str, log_speedups: Mapping[str, float]) -> float:
    """Return an arm's mean log speedup over the baseline; minus infinity without a valid one."""
    return log_speedups.get(arm, -math.inf)
