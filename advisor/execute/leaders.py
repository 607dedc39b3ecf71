"""Which arms lead the decision so far."""

from __future__ import annotations

import math

from advisor.domain.answer import Answer
from advisor.domain.plan import Arm, Plan

FLEXIBILITY = "input_flexibility"
#: Most rivals that are compared with the advised arm.
MOST_RIVALS = 2


def leaders_of(answer: Answer, plan: Plan) -> tuple[Arm, ...]:
    """Return the baseline, the advised arm and its rivals.

    The rivals are the best arm of each other workflow that may lead, or the best arm of another
    workflow where none may.
    """
    advice = answer.recommendation
    if advice is None or answer.advised is None:
        return ()
    advised = answer.advised.scored
    contenders = advice.certainty.contenders if advice.certainty else {}
    others: dict[str, str] = {}
    for scored in answer.scores:
        if scored.workflow != advised.workflow:
            others.setdefault(scored.workflow, scored.arm)
    likely = [others[workflow] for workflow in contenders if workflow in others]
    rivals = likely[:MOST_RIVALS] or list(others.values())[:1]
    chosen = {plan.baseline.id, advised.arm, *rivals}
    return tuple(arm for arm in plan.arms if arm.id in chosen)


def excluded_by_declaration(answer: Answer, plan: Plan) -> tuple[Arm, ...]:
    """Return the arms that only a declared letter of input flexibility excludes, best first.

    They have a higher score than the advised arm, so a measured letter may change the answer.
    """
    advised = answer.advised
    least = advised.scored.score if advised is not None else -math.inf
    found = [
        arm.arm
        for arm in sorted(answer.scores, key=lambda each: -each.score)
        if arm.failures
        and all(failure.constraint.criterion == FLEXIBILITY for failure in arm.failures)
        and arm.ratings[FLEXIBILITY].evidence == "declared"
        and arm.score > least
    ]
    arms = {arm.id: arm for arm in plan.arms}
    return tuple(arms[arm] for arm in found)
