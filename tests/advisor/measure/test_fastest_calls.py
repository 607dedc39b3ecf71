"""The second estimate of a speed-up, which other work on the machine hardly changes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import builders
import pytest
import run_results
from builders import BASELINE

from advisor.domain.results import Results
from probes.wire.events import BlockTimed

TRUTH = 3.0
CALLS = 40


def visits(seed: int, typical: float, slowdowns: Sequence[float]) -> list[BlockTimed]:
    """Return visits whose calls vary by a few per cent; other work slows all but some of them."""
    draw = random.Random(seed)
    made = []
    for visit, slowdown in zip(builders.visits([typical] * len(slowdowns)), slowdowns, strict=True):
        calls = [
            typical * draw.uniform(1.0, 1.03) * (1.0 if draw.random() < 0.15 else slowdown)
            for _ in range(CALLS)
        ]
        made.append(dataclasses.replace(visit, seconds=tuple(calls)))
    return made


def summarised(slowdowns: Sequence[float]) -> Results:
    """Return the results of a run in which other work slows the baseline alone."""
    arms = {
        BASELINE: visits(0, 0.03, slowdowns),
        "compiled": visits(1, 0.03 / TRUTH, [1.0] * len(slowdowns)),
    }
    state = builders.run_state({arm: builders.process(*made) for arm, made in arms.items()})
    return run_results.summarise(state, run_results.RACES)


def test_on_a_quiet_machine_the_paired_rounds_count() -> None:
    measured = run_results.only_measurement(summarised([1.0] * 8))
    (cell,) = measured.cells
    assert cell.fastest_calls is None
    assert measured.speedup.value == pytest.approx(TRUTH, rel=0.02)


def test_a_busy_machine_widens_the_interval_and_the_fastest_calls_count() -> None:
    results = summarised([9.0, 8.5, 9.2, 9.1, 8.8, 9.0, 9.3, 8.9])
    measured = run_results.only_measurement(results)
    (cell,) = measured.cells
    assert cell.fastest_calls is not None
    for speedup in (cell.speedup, measured.speedup):
        assert speedup.value == pytest.approx(TRUTH, rel=0.03)
        assert speedup.low is not None
        assert speedup.high is not None
        assert speedup.low < TRUTH < 8 * TRUTH < speedup.high
    baseline = next(each for each in results.measurements if each.arm == BASELINE)
    ratio = baseline.cells[0].seconds.median / cell.seconds.median
    assert ratio == pytest.approx(cell.speedup.value)


def test_few_calls_have_no_second_estimate() -> None:
    state = run_results.run_with(0.1, 0.1, 0.1, against=0.9)
    (cell,) = run_results.only_measurement(run_results.summarise(state, run_results.RACES)).cells
    assert cell.fastest_calls is None
