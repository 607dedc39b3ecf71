"""Arms that left a race early are compared with its best arm over the rounds that both were in."""

from __future__ import annotations

import math

import builders
import pytest
from builders import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from advisor.measure.rounds import paired_log_speedups, race_log_speedups
from advisor.statistics.intervals import trimmed_mean
from probes.wire.events import BlockTimed

Rounds = dict[int, dict[str, BlockTimed]]


def rounds_of(seconds: dict[str, list[float]]) -> Rounds:
    """Return the visits by round; an arm with fewer figures left after them."""
    rounds: Rounds = {}
    for arm, each in seconds.items():
        for visit in builders.visits(each):
            rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def test_a_drift_of_the_baseline_does_not_put_a_loser_ahead() -> None:
    # The baseline is twice as slow while the loser is in the race.
    rounds = rounds_of({BASELINE: [2.0, 2.0, 1.0, 1.0], "winner": [0.1] * 4, "loser": [0.11, 0.11]})
    loser = race_log_speedups(rounds, BASELINE, "loser", "winner")
    winner = race_log_speedups(rounds, BASELINE, "winner", "winner")
    assert trimmed_mean(paired_log_speedups(rounds, BASELINE, "loser")) > trimmed_mean(winner)
    assert trimmed_mean(winner) - trimmed_mean(loser) == pytest.approx(math.log(1.1))
    assert len(loser) == 2


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=6),
    st.lists(st.floats(0.05, 0.2), min_size=6, max_size=6),
    st.lists(st.floats(0.05, 0.2), min_size=2, max_size=6),
)
def test_two_arms_differ_by_the_rounds_that_both_were_in(
    baseline: list[float], best: list[float], other: list[float]
) -> None:
    count = len(baseline)
    left = other[: count - 1]
    rounds = rounds_of({BASELINE: baseline, "best": best[:count], "other": left})
    difference = trimmed_mean(race_log_speedups(rounds, BASELINE, "best", "best")) - trimmed_mean(
        race_log_speedups(rounds, BASELINE, "other", "best")
    )
    direct = trimmed_mean(
        tuple(math.log(mine / one) for mine, one in zip(left, best, strict=False))
    )
    assert difference == pytest.approx(direct, abs=1e-9)


def test_arms_of_other_rounds_keep_their_figures() -> None:
    rounds = rounds_of({BASELINE: [1.0] * 4, "best": [0.1, 0.1]})
    rounds[3]["later"] = rounds[4]["later"] = builders.visits([0.2])[0]
    assert race_log_speedups(rounds, BASELINE, "later", "best") == paired_log_speedups(
        rounds, BASELINE, "later"
    )
