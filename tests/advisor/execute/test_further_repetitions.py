"""The leaders are repeated further while the decision is OPEN and the time may settle it."""

from __future__ import annotations

import random
from collections.abc import Callable

import builders
import built_answers
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, new_recorder, race_context

from advisor.decide.rounds import plan_of
from advisor.domain.answer import Answer
from advisor.domain.question import Budget, Question
from advisor.domain.recommendation import DecisionWord
from advisor.domain.run_state import RunState
from advisor.execute import repetitions

OPEN_SECONDS = 5.0
#: One repetition: sizes, rounds, arms, calls, seconds of the slowest call.
SECONDS = 2 * repetitions.REPEAT_ROUNDS * 2 * 6 * 0.013
BUDGET = Budget(
    name="quick",
    measuring_seconds=9,
    most_rounds=13,
    repeats=1,
    repeated="leaders",
    open_seconds=OPEN_SECONDS,
)
QUESTION = builders.question(batch_sizes=(1, 4), budget=BUDGET)


def decided(word: DecisionWord, needed: int | None) -> Answer:
    """Return an answer for `compiled` with the number of repetitions that would settle it."""
    made = built_answers.advised(built_answers.answer())
    certainty = msgspec.structs.replace(
        made.certainty, decision_word=word, needed_repetitions=needed
    )
    advice = msgspec.structs.replace(made.advice, certainty=certainty)
    return msgspec.structs.replace(made.answer, recommendation=advice)


OPEN = decided("OPEN", 1)
CLEAR = decided("CLEAR", None)


def after_repetitions(*made: Answer) -> Callable[[RunState], Answer]:
    """Return a function that gives an answer by the number of repetitions, then the last one."""
    return lambda state: made[min(len(state.repeats), len(made) - 1)]


def repeat(
    evaluate: Callable[[RunState], Answer],
    question: Question = QUESTION,
    *,
    started: bool = False,
) -> tuple[SimulatedSession, RunState]:
    """Repeat the leaders of a run that has two arms, whose processes may have been started."""
    session = SimulatedSession(
        SimulatedMachine(NOISE_LEVELS["quiet"], random.Random(0)),
        {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": -0.1},
    )
    recorder = new_recorder(["compiled"])
    if started:
        first = [(arm, 0) for arm in plan_of(recorder.state).arms]
        sessions.exhaust(recorder.record_each(session.start(first)))
        sessions.exhaust(recorder.record_each(session.stop()))
    sessions.exhaust(
        repetitions.repeat_leaders(race_context(session, recorder, question, evaluate))
    )
    assert not session.is_running("compiled")
    return session, recorder.state


@pytest.mark.parametrize("answer", [CLEAR, decided("LIKELY", 1), decided("OPEN", None)])
def test_no_repetition_follows_that_cannot_settle_the_decision(answer: Answer) -> None:
    _, state = repeat(after_repetitions(answer))
    assert sorted(state.repeats) == [1]


def test_repetitions_follow_in_fresh_processes_until_the_decision_is_made() -> None:
    session, state = repeat(after_repetitions(OPEN, OPEN, OPEN, CLEAR))
    assert sorted(state.repeats) == [1, 2, 3]
    assert [process.repeat for process in state.processes["compiled"]] == [1, 2, 3]
    visits = len(QUESTION.batch_sizes) * repetitions.REPEAT_ROUNDS
    assert [arm for arm, _, _ in session.order].count("compiled") == 3 * visits


def test_further_repetitions_have_the_leaders_alone() -> None:
    budget = msgspec.structs.replace(BUDGET, repeated="all")
    question = builders.question(budget=budget)
    _, state = repeat(after_repetitions(OPEN, OPEN, CLEAR), question, started=True)
    assert DUPLICATE in state.repeats[1]
    assert set(state.repeats[2]) == {BASELINE, "compiled"}


def test_repetitions_end_with_the_seconds_of_the_budget() -> None:
    session, state = repeat(after_repetitions(OPEN))
    assert OPEN_SECONDS <= session.machine.clock() <= SECONDS + OPEN_SECONDS
    assert len(state.repeats) > 2


def test_no_repetition_follows_if_those_that_are_needed_take_too_long() -> None:
    _, state = repeat(after_repetitions(decided("OPEN", 16)))
    assert sorted(state.repeats) == [1]


def test_a_budget_without_time_for_open_decisions_has_its_own_repetitions_only() -> None:
    budget = msgspec.structs.replace(BUDGET, repeats=2, open_seconds=0.0)
    _, state = repeat(after_repetitions(OPEN), builders.question(budget=budget))
    assert sorted(state.repeats) == [1, 2]


def test_an_open_decision_after_long_builds_is_worth_a_share_of_their_time() -> None:
    budget = msgspec.structs.replace(BUDGET, open_share=0.1)
    question = builders.question(budget=budget)
    assert repetitions.seconds_while_open(question, RunState(at=20.0)) == OPEN_SECONDS
    assert repetitions.seconds_while_open(question, RunState(at=900.0)) == 90.0
