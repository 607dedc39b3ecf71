"""The undisturbed speed-up of an arm: which processes it needs, and what it compares."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.domain.run_state import RunState
from advisor.measure.arms import summarise_undisturbed
from probes.wire.events import BlockTimed
from probes.wire.shape import Shape

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
