"""A race ends with its measuring time; a race with too few rounds to decide gets overtime."""

from __future__ import annotations

import random
from collections.abc import Iterator

import builders
import built_answers
import pytest
import sessions
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, new_recorder, race_context

from advisor.decide import replay
from advisor.decide.race import Race
from advisor.decide.rounds import plan_of
from advisor.domain.run_events import LoggedEvent, RunEvent, WorkerEnded
from advisor.domain.run_state import RunState
from advisor.execute import racing, remaining
from advisor.execute.racing import DECIDING_ROUNDS, RaceDeadline, StopRule
from advisor.execute.recorder import Recorder
from probes.wire.outcome import Failure, Outcome
from probes.wire.shape import Shape

CRASHED = Failure("crashed", phase="measure", signal="SIGSEGV", reason="gone")
TWO_SIZES = builders.question(batch_sizes=(1, 4))


def test_a_race_can_decide_after_deciding_rounds_and_not_before() -> None:
    race = Race(["fast", "slow"], "slow")
    for number in range(1, DECIDING_ROUNDS + 1):
        assert not race.finished, number
        for arm in race.next_round():
            race.record(arm, (arm == "slow") + number / 1e3)
    assert race.finished


@pytest.mark.parametrize(
    ("now", "rounds", "over"),
    [
        (9.0, 0, False),
        (9.0, DECIDING_ROUNDS + 5, False),
        (10.0, DECIDING_ROUNDS, True),
        (10.0, DECIDING_ROUNDS - 1, False),
        (59.0, 0, False),
        (60.0, 0, True),
    ],
)
def test_a_race_with_too_few_rounds_gets_overtime_up_to_its_limit(
    now: float, rounds: int, *, over: bool
) -> None:
    assert RaceDeadline(clock=lambda: now, deadline=10.0, last=60.0).is_over(rounds) is over


class SessionWithFailingBaseline(SimulatedSession):
    """Workers of which the baseline's ends in the fourth round."""

    def visit(self, arm: str, shape: Shape, number: int) -> Iterator[RunEvent]:
        """Make the calls of one block, or end."""
        if arm != BASELINE or number < 4:
            yield from super().visit(arm, shape, number)
            return
        self._running.discard(arm)
        yield WorkerEnded(arm=arm, process=0, outcome=Outcome(CRASHED))


def races_of(session: SimulatedSession, recorder: Recorder) -> Iterator[LoggedEvent]:
    """Race two batch sizes; there is always an answer, and no decision is asked for."""
    context = race_context(session, recorder, TWO_SIZES, lambda _: built_answers.answer())
    return racing.race_shapes(context, has_answer=lambda _: True)


def test_no_race_is_opened_after_the_baseline_has_ended() -> None:
    session = SessionWithFailingBaseline(
        SimulatedMachine(NOISE_LEVELS["quiet"], random.Random(0)),
        {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": 0.1},
    )
    recorder = new_recorder(["compiled"])
    arms = [(arm, 0) for arm in plan_of(recorder.state).arms]
    sessions.exhaust(recorder.record_each(session.start(arms)))
    sessions.exhaust(races_of(session, recorder))
    state = recorder.state
    first = Shape(1)
    assert {shape: end.cause for shape, end in state.closed.items()} == {first: "baseline-ended"}
    assert set(state.opened) == {first}
    assert list(replay.results_by_shape(state, TWO_SIZES)) == [first]
    assert remaining.needed_arms(state, TWO_SIZES) == []


def race_with(rounds: int, *, spread: float) -> Race:
    """Return a race of two arms after this many rounds; the differences scatter by `spread`."""
    race = Race(["fast", "slow"], "slow", most_rounds=40)
    race.ends_with_verdict = False
    for number in range(rounds):
        for arm in race.next_round():
            race.record(arm, (arm == "fast") * (spread * (-1) ** number - 1.0))
    return race


def test_a_race_ends_at_a_look_when_there_is_an_answer_and_its_intervals_are_narrow() -> None:
    rule = StopRule(has_answer=lambda _: True)
    assert not rule.may_end(race_with(DECIDING_ROUNDS - 1, spread=0.001), RunState())
    assert not rule.may_end(race_with(5, spread=0.001), RunState()), "5 rounds are no look"
    assert rule.may_end(race_with(DECIDING_ROUNDS, spread=0.001), RunState())


def test_a_race_goes_on_while_the_answer_does_not_stand() -> None:
    assert not StopRule(has_answer=lambda _: False).may_end(race_with(6, spread=0.001), RunState())


def test_a_race_goes_on_while_wide_intervals_shrink_and_ends_when_they_stop() -> None:
    rule = StopRule(has_answer=lambda _: True)
    assert not rule.may_end(race_with(4, spread=0.5), RunState())
    assert not rule.may_end(race_with(9, spread=0.5), RunState()), "the interval has shrunk"
    assert rule.may_end(race_with(9, spread=0.5), RunState()), "as wide as at the last look"


def test_an_early_race_ends_at_the_first_look() -> None:
    assert not racing.ends_at_first_look(race_with(DECIDING_ROUNDS - 1, spread=0.5), RunState())
    assert racing.ends_at_first_look(race_with(DECIDING_ROUNDS, spread=0.5), RunState())
