"""Which arms lead the decision so far."""

from __future__ import annotations

import math

from advisor.domain.plan import Arm
from advisor.pipeline.decision import Decision
from advisor.pipeline.stored.arms import plan_of

FLEXIBILITY = "input_flexibility"
#: Most rivals that are compared with the advised arm.
MOST_RIVALS = 2


def leaders_of(decision: Decision) -> tuple[Arm, ...]:
    """Return the baseline, the advised arm and its rivals.

    The rivals are the best arm of each other workflow that may lead, or the best arm of another
    workflow where none may.
    """
    plan, advice = plan_of(decision.state), decision.recommendation
    if advice is None:
        return ()
    advised = next(arm for arm in decision.scored if arm.arm == advice.arm)
    others: dict[str, str] = {}
    for scored in decision.scored:
        if scored.workflow != advised.workflow:
            others.setdefault(scored.workflow, scored.arm)
    likely = [others[workflow] for workflow in advice.contenders if workflow in others]
    rivals = likely[:MOST_RIVALS] or list(others.values())[:1]
    chosen = {plan.baseline.id, advised.arm, *rivals}
    return tuple(arm for arm in plan.arms if arm.id in chosen)


def excluded_by_declaration(decision: Decision) -> tuple[Arm, ...]:
    """Return the arms that only a declared letter of input flexibility excludes, best first.

    They have a higher score than the advised arm, so a measured letter may change the answer.
    """
    advice = decision.recommendation
    scores = {arm.arm: arm.score for arm in decision.scored}
    least = scores[advice.arm] if advice is not None else -math.inf
    found = [
        arm.arm
        for arm in sorted(decision.scored, key=lambda each: -each.score)
        if arm.failures
        and all(failure.constraint.criterion == FLEXIBILITY for failure in arm.failures)
        and arm.ratings[FLEXIBILITY].evidence == "declared"
        and arm.score > least
    ]
    arms = {arm.id: arm for arm in plan_of(decision.state).arms}
    return tuple(arms[arm] for arm in found)
