"""A race ends when its time is spent, but an answer in doubt beats none: too few rounds get overtime."""

from __future__ import annotations

import pytest

from advisor.pipeline.racing import DECIDING_ROUNDS, Patience
from advisor.race import Race


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
def test_too_few_rounds_get_overtime_and_no_more_than_that(now: float, rounds: int, *, over: bool) -> None:
    assert Patience(clock=lambda: now, deadline=10.0, last=60.0).is_over(rounds) is over
