"""Which arms lead the decision so far, and whether further rounds of them could settle it."""

from __future__ import annotations

from collections.abc import Callable

from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_state import RunState
from advisor.pipeline.decision import Decision
from advisor.pipeline.recorder import Recorder
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


def seconds_while_open(question: Question, state: RunState) -> float:
    """Return the seconds of further rounds that an OPEN decision is worth now.

    After builds of many minutes a user gains more from an answer than from an earlier end.
    """
    budget = question.budget
    return max(budget.open_seconds, budget.open_share * state.at)


def while_open(
    recorder: Recorder,
    question: Question,
    clock: Callable[[], float],
    evaluate: Callable[[RunState], Decision],
) -> Callable[[], Decision | None]:
    """Return a function that gives the decision so far while further rounds of its leaders are due.

    They are due while the decision is OPEN, rounds may settle it within the budget for open
    decisions, and the seconds of this budget, which start now, are not spent. Then it gives None.
    """
    budget = seconds_while_open(question, recorder.state)
    end = clock() + budget

    def open_decision() -> Decision | None:
        if clock() >= end:
            return None
        decision = evaluate(recorder.state)
        advice = decision.recommendation
        may_settle = (
            advice is not None
            and advice.decision_word == "OPEN"
            and advice.needed_seconds is not None
            and advice.needed_seconds <= budget
        )
        return decision if may_settle else None

    return open_decision
