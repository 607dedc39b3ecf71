"""How the answer depends on the weights and on the constraints.

Shares of the weight simplex are computed in fractions, weights at which the lead changes in floats.
Both follow from the scores without a search, because a score is linear in the weights.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from advisor.decide.certainty import Contest, is_settled, judge_certainty
from advisor.decide.scoring import sort_key, without_constraint
from advisor.domain.constraints import FURTHER_CRITERIA, PILLARS, Priorities
from advisor.domain.recommendation import ConstraintEffect, Flip, Side
from advisor.domain.results import ScoredArm

#: A point of the weight simplex: the shares of performance and productivity; portability has the
#: rest.
Point = tuple[Fraction, Fraction]
#: A score as a linear function of the point: value at the origin, slope along each axis.
ScoreFunction = tuple[Fraction, Fraction, Fraction]

ALL_WEIGHTS: tuple[Point, ...] = (
    (Fraction(0), Fraction(0)),
    (Fraction(1), Fraction(0)),
    (Fraction(0), Fraction(1)),
)


def leading_shares(viable: Sequence[ScoredArm], priorities: Priorities) -> dict[str, float]:
    """Return the share of all weights of the three Ps at which each arm leads; they sum to 1."""
    regions = leading_regions(viable, priorities)
    return {each.arm: float(2 * _area(regions.get(each.arm, ()))) for each in viable}


def leading_regions(
    viable: Sequence[ScoredArm], priorities: Priorities
) -> dict[str, tuple[Point, ...]]:
    """Return the corners of the region in which each arm leads, without arms that lead nowhere.

    The bonus counts, and the weights of the further criteria stay. If arms have the same points at
    all weights, the fastest has the whole region.
    """
    functions: dict[ScoreFunction, str] = {}
    further_weights = tuple(getattr(priorities, name) for name in FURTHER_CRITERIA)
    for scored in sorted(viable, key=lambda each: sort_key(each, points=0.0)):
        pillars, further = (
            tuple(scored.ratings[name].grade for name in names)
            for names in (PILLARS, FURTHER_CRITERIA)
        )
        score, across, up = _score_function(pillars, further, further_weights)
        functions.setdefault((score + _exact(scored.bonus), across, up), scored.arm)
    regions = zip(functions.values(), _regions_between(tuple(functions)), strict=True)
    return {arm: region for arm, region in regions if _area(region)}


@functools.lru_cache(maxsize=64)
def _regions_between(functions: tuple[ScoreFunction, ...]) -> tuple[tuple[Point, ...], ...]:
    """Return where each function is highest; cached, as weights do not change that."""
    regions = []
    for function in functions:
        region = list(ALL_WEIGHTS)
        for other in functions:
            region = _clip(
                region, tuple(one - two for one, two in zip(function, other, strict=True))
            )
        regions.append(tuple(region))
    return tuple(regions)


@functools.lru_cache(maxsize=256)
def _score_function(
    pillars: tuple[float, ...], further: tuple[float, ...], further_weights: tuple[float, ...]
) -> ScoreFunction:
    shares = [Fraction(weight) / 100 for weight in further_weights]
    left = 1 - sum(shares, Fraction(0))
    performance, productivity, portability = (left * _exact(grade) for grade in pillars)
    constant = sum(
        (share * _exact(grade) for share, grade in zip(shares, further, strict=True)), Fraction(0)
    )
    return constant + portability, performance - portability, productivity - portability


def _exact(grade: float) -> Fraction:
    """Return a grade as a fraction with a short denominator, which keeps the arithmetic fast."""
    return Fraction(grade).limit_denominator(1_000_000)


def _clip(region: Sequence[Point], lead: tuple[Fraction, ...]) -> list[Point]:
    """Return the part of a convex region where the lead is not negative."""
    kept: list[Point] = []
    for index, here in enumerate(region):
        before = region[index - 1]
        at_before, at_here = (
            lead[0] + lead[1] * point[0] + lead[2] * point[1] for point in (before, here)
        )
        if at_before * at_here < 0:
            part = at_before / (at_before - at_here)
            kept.append(
                (before[0] + part * (here[0] - before[0]), before[1] + part * (here[1] - before[1]))
            )
        if at_here >= 0:
            kept.append(here)
    return kept


def _area(region: Sequence[Point]) -> Fraction:
    turns = (
        region[index - 1][0] * here[1] - here[0] * region[index - 1][1]
        for index, here in enumerate(region)
    )
    return abs(sum(turns, Fraction(0))) / 2


def constraint_effects(contest: Contest) -> tuple[ConstraintEffect, ...]:
    """Return, per constraint, the arm advised without it."""
    results, probability = contest.results, contest.rule.clear_share
    constraints = contest.question.constraints
    effects = []
    for index, constraint in enumerate(constraints):
        others = (*constraints[:index], *constraints[index + 1 :])
        other = dataclasses.replace(
            contest,
            scores=without_constraint(contest.scores, index, results, probability),
            question=msgspec.structs.replace(contest.question, constraints=others),
        )
        # The words of a decision, which take long, are needed on an unfit machine alone.
        is_answer = other.viable and (other.fit or is_settled(other, judge_certainty(other)))
        without = other.advised.arm if is_answer else None
        effects.append(ConstraintEffect(constraint=constraint.text, without=without))
    return tuple(effects)


#: Scores closer than this differ by rounding alone.
SAME_SCORE = 1e-9
#: Limit of a weight that is lowered or raised.
ENDS: Mapping[Side, float] = {"less": 0.0, "more": 100.0}


def find_flips(
    advised: ScoredArm, arms: Sequence[ScoredArm], priorities: Priorities
) -> tuple[Flip, ...]:
    """Return, for each of the three Ps, the weights at which the choice changes, nearest first.

    `arms` are those that may be chosen. Along each path their points are straight lines, so the
    choice changes only where two of them cross.
    """
    flips: list[Flip] = []
    at_start = _points(arms, priorities)
    for pillar in PILLARS:
        now, found = getattr(priorities, pillar), []
        for side, weight in ENDS.items():
            at_end = _points(arms, priorities.with_weight(pillar, weight))
            found += [
                Flip(criterion=pillar, weight=now + position * (weight - now), to=arm, when=side)
                for position, arm in _follow_lead(advised.arm, arms, at_start, at_end)
            ]
        flips += sorted(found, key=lambda flip: abs(flip.weight - now))
    return tuple(flips)


def _points(arms: Sequence[ScoredArm], priorities: Priorities) -> dict[str, float]:
    """Return what the choice compares: the score at these weights, and the bonus."""
    return {each.arm: priorities.weigh(grades_of(each)) + each.bonus for each in arms}


def _follow_lead(
    leader: str,
    viable: Sequence[ScoredArm],
    at_start: Mapping[str, float],
    at_end: Mapping[str, float],
) -> list[tuple[float, str]]:
    """Return where the lead changes between two ends, from 0 to 1, and the arm that takes it."""
    rises = {name: at_end[name] - at_start[name] for name in at_end}
    changes: list[tuple[float, str]] = []
    position = 0.0
    while True:
        # A score that rises no faster than the leader's can never overtake it.
        crossings = {
            name: (at_start[leader] - at_start[name]) / (rise - rises[leader])
            for name, rise in rises.items()
            if rise - rises[leader] > SAME_SCORE
        }
        # Equal scores that differ by rounding cross here, not a rounding error further on.
        crossings = {
            name: crossing if crossing > position + SAME_SCORE else position
            for name, crossing in crossings.items()
        }
        position = min(crossings.values(), default=1.0)
        if position > 1.0 - SAME_SCORE:
            return changes
        # If several scores cross at one position, the steepest leads after it.
        equal = [each for each in viable if crossings.get(each.arm, 1.0) - position < SAME_SCORE]
        leader = leader_of(equal, rises)
        changes.append((position, leader))


def grades_of(scored: ScoredArm) -> dict[str, float]:
    return {name: rating.grade for name, rating in scored.ratings.items()}


def leader_of(viable: Sequence[ScoredArm], scores: Mapping[str, float]) -> str:
    return min(viable, key=lambda each: sort_key(each, scores[each.arm])).arm
