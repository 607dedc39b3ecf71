"""The weights at which another arm takes the lead, exact because scores are linear. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.priorities import PILLARS, Priorities
from advisor.domain.recommendation import Flip, Side
from advisor.domain.scores import ScoredArm

#: Scores closer than this differ by rounding alone.
SAME_SCORE = 1e-9
#: Limit of a weight that is lowered or raised.
ENDS: Mapping[Side, float] = {"less": 0.0, "more": 100.0}


def find_flips(viable: Sequence[ScoredArm], priorities: Priorities) -> tuple[Flip, ...]:
    """Return, for each of the three Ps, the weights at which the lead changes, nearest first.

    Along each path the scores are straight lines, so the lead changes only where two of them cross.
    """
    flips: list[Flip] = []
    # Of arms with the same grades, only the first one can lead.
    leading = list(
        reversed({tuple(grades_of(arm).values()): arm for arm in reversed(viable)}.values())
    )
    grades = {arm.arm: grades_of(arm) for arm in leading}
    at_start = priorities.weigh_all(grades)
    for pillar in PILLARS:
        now, found = getattr(priorities, pillar), []
        for side, weight in ENDS.items():
            at_end = priorities.with_weight(pillar, weight).weigh_all(grades)
            found += [
                Flip(criterion=pillar, weight=now + position * (weight - now), to=arm, when=side)
                for position, arm in _follow_lead(leading, at_start, at_end)
            ]
        flips += sorted(found, key=lambda flip: abs(flip.weight - now))
    return tuple(flips)


def _follow_lead(
    viable: Sequence[ScoredArm], at_start: Mapping[str, float], at_end: Mapping[str, float]
) -> list[tuple[float, str]]:
    """Return where the lead changes between two ends, from 0 to 1, and the arm that takes it."""
    rises = {name: at_end[name] - at_start[name] for name in at_end}
    changes: list[tuple[float, str]] = []
    leader, position = leader_of(viable, at_start), 0.0
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
        # Of several scores that cross at one position, the steepest leads after it.
        equal = [arm for arm in viable if crossings.get(arm.arm, 1.0) - position < SAME_SCORE]
        leader = leader_of(equal, rises)
        changes.append((position, leader))


def grades_of(arm: ScoredArm) -> dict[str, float]:
    """Return an arm's grades by criterion."""
    return {name: rating.grade for name, rating in arm.ratings.items()}


def leader_of(viable: Sequence[ScoredArm], scores: Mapping[str, float]) -> str:
    """Return the arm with the highest score; among equals the faster, then the higher ranked."""
    return min(viable, key=lambda arm: (-round(scores[arm.arm], 9), -arm.speedup, arm.rank)).arm
