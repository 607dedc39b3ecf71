"""The undisturbed speed-up of an arm: which processes it needs, and what it compares."""

from __future__ import annotations

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.domain.run_state import RunState
from advisor.measure.undisturbed_speedup import summarise_undisturbed

#: Seconds of three visits in each process; in the last one other work slows the baseline.
SECONDS = {
    BASELINE: ([0.4, 0.4, 0.4], [0.4, 0.4, 0.4], [0.9, 0.9, 0.9]),
    "compiled": ([0.2, 0.2, 0.2], [0.2, 0.2, 0.2], [0.3, 0.3, 0.3]),
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


def test_the_fastest_visits_of_three_processes_are_compared() -> None:
    found = summarise_undisturbed(run_of(3), BASELINE, "compiled", 1)
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert found.processes == 3
    assert found.log_error > 0


def test_two_processes_do_not_show_the_error() -> None:
    assert summarise_undisturbed(run_of(2), BASELINE, "compiled", 1) is None


def test_a_batch_size_without_visits_has_none() -> None:
    assert summarise_undisturbed(run_of(3), BASELINE, "compiled", 4) is None
