"""The races of a run, reconstructed from its stored events."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Mapping

from advisor import measure, recommend
from advisor.domain.measurement import RaceResult
from advisor.domain.question import Question
from advisor.domain.run_state import RaceGroup, RunState
from advisor.pipeline.arms import failed_arms, plan_of
from advisor.statistics.race import Kind, Race, Verdict

#: Rounds without which a batch size says nothing: one round shows no spread.
FEWEST_ROUNDS = 2


LAST_ROUND = sys.maxsize


def replay(state: RunState, batch_size: int, question: Question, place: int = -1) -> Race:
    """Return the race of a batch size's last group, or that at `place`, as far as it has come.

    Same arms, same seed, same records, so the same verdict.
    """
    plan, group = plan_of(state), state.groups[batch_size][place]
    entered, later = (
        group.arms,
        [
            other.first_round
            for other in state.groups[batch_size]
            if other.first_round > group.first_round
        ],
    )
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
    for _, visits in sorted(
        (number, each)
        for number, each in measure.rounds_of(state, batch_size).items()
        if number in rounds
    ):
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
        lambda earlier, later: join_verdicts(earlier, later, speedups),
        (
            count_on(replay(state, batch_size, question, place).verdict, group)
            for place, group in contests(state, batch_size)
        ),
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
    return [
        (place, group)
        for place, group in enumerate(state.groups.get(batch_size, ()))
        if baseline in group.arms
    ]


def results_by_batch_size(state: RunState, question: Question) -> dict[int, RaceResult]:
    """Return the races that have enough rounds to say something."""
    results = {
        size: result_of(state, size, question)
        for size in question.batch_sizes
        if contests(state, size)
    }
    return {size: result for size, result in results.items() if result.rounds >= FEWEST_ROUNDS}


def count_on(verdict: Verdict, group: RaceGroup) -> Verdict:
    """Return a group's verdict with its rounds counted on from those of the groups before."""
    before = group.first_round - 1
    eliminated = {arm: number + before for arm, number in verdict.eliminated.items()}
    return dataclasses.replace(verdict, rounds=verdict.rounds + before, eliminated=eliminated)


def join_verdicts(earlier: Verdict, later: Verdict, log_speedups: Mapping[str, float]) -> Verdict:
    """Return what two groups show together.

    Whoever the earlier group left open is still open: beside the same best as it was, beside
    another one as unresolved: they never met. Where memory had no room for the earlier best in the
    later group, it is still the best unless someone it has not met gained more over the baseline.
    """
    decided = arms_of(later)
    absent, met = earlier.best not in decided, later.best in arms_of(earlier)
    if absent and (met or gain_of(earlier.best, log_speedups) >= gain_of(later.best, log_speedups)):
        return _keep_best(earlier, later)
    tied = [arm for arm in earlier.tied if arm not in decided]
    unresolved = [arm for arm in earlier.unresolved if arm not in decided]
    kind: Kind = later.kind
    if earlier.best != later.best:
        tied, unresolved = [], [*tied, *unresolved]
        kind = "INCONCLUSIVE" if unresolved else kind
    elif tied or unresolved:
        kind = max(kind, earlier.kind, key=recommend.STRENGTH.index)
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
    """Return the earlier verdict with the arms that only the later group had: who was not shown slower there is unresolved."""
    decided = arms_of(earlier)
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


def arms_of(verdict: Verdict) -> set[str]:
    """Return the arms that a verdict is about."""
    return {verdict.best, *verdict.tied, *verdict.unresolved, *verdict.eliminated}


def gain_of(arm: str, log_speedups: Mapping[str, float]) -> float:
    """Return an arm's mean log speed-up over the baseline; of one that does not count any more, less than any."""
    return log_speedups.get(arm, -math.inf)
