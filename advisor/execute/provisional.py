"""The answer from the arms that have raced so far, while others still have to be built."""

from __future__ import annotations

from advisor.decide.arm_states import plan_of
from advisor.decide.decision import evaluate
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.run import Header
from advisor.domain.run_events import ProvisionalAnswer
from advisor.domain.run_state import RunState
from advisor.execute import remaining


def answer_so_far(answer: Answer, state: RunState) -> ProvisionalAnswer:
    """Return the answer of now in few fields, and the arms that have not raced."""
    waiting = remaining.waiting_arms(state, answer.question)
    return ProvisionalAnswer(
        answer=AnswerSummary.of(answer),
        waiting=tuple(arm.id for arm in plan_of(state).arms if arm.id in waiting),
    )


def has_answer(header: Header, state: RunState) -> bool:
    """Return whether the decision is made with what has been measured so far."""
    summary = AnswerSummary.of(evaluate(header, state))
    return summary.arm is not None and summary.decision_word != "OPEN"
