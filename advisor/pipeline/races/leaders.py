"""Which arms lead the decision so far."""

from __future__ import annotations

from advisor.domain.plan import Arm
from advisor.pipeline.decision import Decision
from advisor.pipeline.stored.arms import plan_of

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
