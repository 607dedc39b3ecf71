"""The leaders race further while the decision is OPEN, rounds may settle it and time is left."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Iterator

import builders
import msgspec
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, new_recorder

from advisor.catalogue import rubric_files
from advisor.domain.question import Budget, Question
from advisor.domain.recommendation import DecisionWord
from advisor.domain.run_events import RepetitionStarted
from advisor.domain.run_state import RunState
from advisor.pipeline.decision import Decision
from advisor.pipeline.races import further_rounds, leaders, repetitions
from advisor.pipeline.recorder import Recorder
from advisor.pipeline.stored import replay
from advisor.pipeline.stored.arms import plan_of

LIMITS = rubric_files.load().presets.guard
OPEN_SECONDS = 5.0
QUESTION = builders.question(
    batch_sizes=(1, 4),
    budget=Budget(
        name="quick", measuring_seconds=9, most_rounds=13, repeats=1, open_seconds=OPEN_SECONDS
    ),
)


def advice(word: DecisionWord, needed: float | None) -> Decision:
    """Return a decision for `compiled` with this word and the seconds that would settle it."""
    made = builders.decision()
    assert made.recommendation is not None
    return builders.decision(
        recommendation=msgspec.structs.replace(
            made.recommendation, decision_word=word, needed_seconds=needed
        )
    )


OPEN = advice("OPEN", OPEN_SECONDS)
CLEAR = advice("CLEAR", None)


def decisions(*made: Decision) -> Callable[[RunState], Decision]:
    """Return a function that gives one decision after the other, the last one for good."""
    remaining: Iterator[Decision] = iter(made)
    last = made[-1]
    return lambda _: next(remaining, last)


def raced(evaluate: Callable[[RunState], Decision]) -> tuple[SimulatedSession, Recorder]:
    """Race the leaders of a run whose arms are started and have not raced."""
    session = SimulatedSession(
        SimulatedMachine(NOISE_LEVELS["quiet"], random.Random(0)),
        {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": -0.1, "broken": 0.1},
    )
    recorder = new_recorder(["compiled", "broken"])
    arms = [(arm, 0) for arm in plan_of(recorder.state).arms]
    sessions.exhaust(recorder.record_each(session.start(arms)))
    sessions.exhaust(
        further_rounds.race_leaders(
            session,  # type: ignore[arg-type]
            recorder,
            QUESTION,
            LIMITS,
            session.machine.clock,
            evaluate,
        )
    )
    return session, recorder


def rounds_by_size(session: SimulatedSession, arm: str) -> dict[int, int]:
    """Return the number of rounds of an arm by batch size."""
    return dict(collections.Counter(size for name, size, _ in session.order if name == arm))


@pytest.mark.parametrize(
    "decision", [CLEAR, advice("EITHER", None), advice("OPEN", None), advice("OPEN", 5.1)]
)
def test_no_round_is_run_that_cannot_settle_the_decision(decision: Decision) -> None:
    session, recorder = raced(decisions(decision))
    assert session.order == []
    assert recorder.state.groups == {}


def test_the_leaders_and_the_duplicate_race_until_the_decision_is_made() -> None:
    session, recorder = raced(decisions(OPEN, OPEN, CLEAR))
    assert {arm for arm, _, _ in session.order} == {BASELINE, DUPLICATE, "compiled"}
    assert rounds_by_size(session, "compiled") == {1: 8, 4: 8}
    sizes = [size for arm, size, _ in session.order if arm == BASELINE]
    assert sizes == [1] * 4 + [4] * 4 + [1] * 4 + [4] * 4
    assert {closed.cause for closed in recorder.state.closed.values()} == {"decided"}
    assert set(replay.results_by_batch_size(recorder.state, QUESTION)) == {1, 4}


def test_the_further_rounds_end_with_the_seconds_of_the_budget() -> None:
    session, _ = raced(decisions(OPEN))
    a_turn = 2 * 4 * 3 * 6 * 0.013  # sizes, rounds, arms, calls, seconds of the slowest call
    assert OPEN_SECONDS <= session.machine.clock() <= OPEN_SECONDS + a_turn
    assert rounds_by_size(session, "compiled")[1] > 8


def test_an_open_decision_after_long_builds_is_worth_a_share_of_their_time() -> None:
    budget = msgspec.structs.replace(QUESTION.budget, open_share=0.1)
    question = builders.question(budget=budget)
    assert leaders.seconds_while_open(question, RunState(at=20.0)) == OPEN_SECONDS
    assert leaders.seconds_while_open(question, RunState(at=900.0)) == 90.0


def repeated(question: Question, evaluate: Callable[[RunState], Decision]) -> dict[int, int]:
    """Return the rounds by batch size of one repetition."""
    session = SimulatedSession(
        SimulatedMachine(NOISE_LEVELS["quiet"], random.Random(0)),
        {BASELINE: 0.0, "compiled": -0.1},
    )
    recorder = new_recorder(["compiled"])
    recorder.record(RepetitionStarted(repeat=1, arms=(BASELINE, "compiled")))
    sessions.exhaust(
        repetitions.repeat_leaders(
            session,  # type: ignore[arg-type]
            recorder,
            question,
            LIMITS,
            session.machine.clock,
            evaluate,
        )
    )
    assert not session.is_running("compiled")
    return rounds_by_size(session, "compiled")


def test_a_repetition_goes_on_while_the_decision_is_open() -> None:
    least = repetitions.REPEAT_ROUNDS
    further = repetitions.FURTHER_ROUNDS
    # The first decision chooses the builds to repeat.
    assert repeated(QUESTION, decisions(OPEN, CLEAR)) == {1: least, 4: least}
    assert repeated(QUESTION, decisions(OPEN, OPEN, CLEAR)) == dict.fromkeys(
        (1, 4), least + further
    )
    assert repeated(QUESTION, decisions(OPEN))[1] > least + further
