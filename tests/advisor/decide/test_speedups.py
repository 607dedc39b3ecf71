"""Speed-ups from paired rounds, and from the fastest visits of processes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import builders
import msgspec
import pytest
from builders import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide.arms import summarise_undisturbed
from advisor.decide.intervals import trimmed_mean
from advisor.decide.rounds import paired_log_speedups, race_log_speedups
from advisor.domain.run_state import RunState
from probes.wire.events import BlockTimed
from probes.wire.shape import Shape

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


#: Seconds of the visits in each process; in the last one other work slows the baseline.
SECONDS = {
    BASELINE: (*([[0.4, 0.4, 0.4]] * 5), [0.9, 0.9, 0.9]),
    "compiled": (*([[0.2, 0.2, 0.2]] * 5), [0.3, 0.3, 0.3]),
}


def run_of(processes: int) -> RunState:
    """Return a run whose arms have this many processes."""
    state = builders.run_state({})
    return msgspec.structs.replace(
        state,
        processes={
            arm: tuple(
                msgspec.structs.replace(builders.process(*builders.visits(each)), repeat=number)
                for number, each in enumerate(seconds[:processes])
            )
            for arm, seconds in SECONDS.items()
        },
        repeats={number: tuple(SECONDS) for number in range(1, processes)},
    )


def test_the_fastest_visits_of_six_processes_are_compared() -> None:
    found = summarise_undisturbed(run_of(6), BASELINE, "compiled", Shape(1))
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert found.processes == 6
    assert found.log_error >= 0


def test_rounds_of_the_baseline_alone_do_not_count() -> None:
    state = run_of(6)
    more = tuple(
        msgspec.structs.replace(
            process, visits=(*process.visits, *renumbered(builders.visits([0.1] * 9), 10))
        )
        for process in state.processes[BASELINE]
    )
    state = msgspec.structs.replace(state, processes={**state.processes, BASELINE: more})
    found = summarise_undisturbed(state, BASELINE, "compiled", Shape(1))
    assert found is not None
    assert found.value == pytest.approx(2.0)


def renumbered(visits: Sequence[BlockTimed], first: int) -> list[BlockTimed]:
    """Return the visits in rounds from `first` on."""
    return [dataclasses.replace(visit, round=first + place) for place, visit in enumerate(visits)]


def test_five_processes_do_not_show_the_error() -> None:
    assert summarise_undisturbed(run_of(5), BASELINE, "compiled", Shape(1)) is None


def test_a_batch_size_without_visits_has_none() -> None:
    assert summarise_undisturbed(run_of(6), BASELINE, "compiled", Shape(4)) is None
