"""A race ends when its time is spent, but an answer in doubt beats none: too few rounds get overtime."""

from __future__ import annotations

import random
from collections.abc import Iterator

import builders
import pytest
from builders import BASELINE, DUPLICATE
from simulation import REGIMES, Environment, SimulatedRun, SimulatedSession

from advisor import catalogue
from advisor.domain.outcome import Crashed
from advisor.domain.run_events import Ended, RunEvent
from advisor.domain.run_state import RaceGroup
from advisor.pipeline import racing, remaining, replay
from advisor.pipeline.arms import plan_of
from advisor.pipeline.racing import DECIDING_ROUNDS, RaceDeadline
from advisor.statistics.race import Race

CRASHED = Crashed(phase="measure", signal="SIGSEGV", reason="gone")
TWO_SIZES = builders.question(batch_sizes=(1, 4))


def test_a_race_is_given_the_rounds_after_which_it_can_first_decide() -> None:
    contest = Race(["fast", "slow"], "slow")
    for number in range(1, DECIDING_ROUNDS + 1):
        assert not contest.finished, number
        for arm in contest.next_round():
            contest.record(arm, (arm == "slow") + number / 1e3)
    assert contest.finished


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
def test_too_few_rounds_get_overtime_and_no_more_than_that(
    now: float, rounds: int, *, over: bool
) -> None:
    assert RaceDeadline(clock=lambda: now, deadline=10.0, last=60.0).is_over(rounds) is over


class Failing(SimulatedSession):
    """Workers of which the baseline's ends in the fourth round."""

    def visit(self, arm: str, batch_size: int, number: int) -> Iterator[RunEvent]:
        """Make the calls of one block, or end."""
        if arm != BASELINE or number < 4:
            yield from super().visit(arm, batch_size, number)
            return
        self._running.discard(arm)
        yield Ended(arm=arm, process=0, outcome=CRASHED)


def test_after_the_end_of_the_baseline_no_race_is_opened_any_more() -> None:
    session = Failing(
        Environment(REGIMES["quiet"], random.Random(0)),
        {BASELINE: 0.0, DUPLICATE: 0.0, "compiled": 0.1},
    )
    run, rules = SimulatedRun(["compiled"]), catalogue.load().presets.guard
    run.take(session.start([(arm, 0) for arm in plan_of(run.state).arms]))
    run.take(racing.drive(session, lambda: run.state, TWO_SIZES, rules, session.environment.clock))  # type: ignore[arg-type]
    assert run.state.closed == {1: "the baseline ended"}
    assert set(run.state.opened) == {1}
    assert list(replay.results_by_batch_size(run.state, TWO_SIZES)) == [1]
    assert remaining.needed_arms(run.state, TWO_SIZES) == []


def test_a_stored_race_that_was_opened_without_the_baseline_shows_nothing_and_does_not_go_on() -> (
    None
):
    ended, made = (
        builders.process(*builders.visits([0.4] * 3), outcome=CRASHED),
        builders.visits([0.2] * 4),
    )
    state = builders.run_state(
        {BASELINE: ended, "compiled": builders.process(*made, *builders.visits([0.2], 4))},
        opened={1: (BASELINE, "compiled"), 4: ("compiled",)},
        closed={1: "the baseline ended"},
        groups={
            1: (RaceGroup(arms=(BASELINE, "compiled"), first_round=1),),
            4: (RaceGroup(arms=("compiled",), first_round=1),),
        },
    )
    assert list(replay.results_by_batch_size(state, TWO_SIZES)) == [1]
    assert remaining.needed_arms(state, TWO_SIZES) == []
    session, rules = (
        SimulatedSession(Environment(REGIMES["quiet"], random.Random(0)), {}),
        catalogue.load().presets.guard,
    )
    assert (
        list(racing.drive(session, lambda: state, TWO_SIZES, rules, session.environment.clock))  # type: ignore[arg-type]
        == []
    )
