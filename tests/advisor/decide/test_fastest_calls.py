"""The second estimate of a speed-up, which other work on the machine hardly changes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import builders
import pytest
import run_results
from builders import BASELINE

from advisor.domain.measurement import Cell, Measurement
from advisor.domain.results import Results
from advisor.domain.run_events import Conditions, ConditionsRecorded
from probes.wire.events import BlockTimed
from probes.wire.shape import Shape

TRUTH = 3.0
SLOWDOWNS = [9.0, 8.5, 9.2, 9.1, 8.8, 9.0, 9.3, 8.9]


def visits(
    seed: int, typical: float, slowdowns: Sequence[float], undisturbed: Sequence[float]
) -> list[BlockTimed]:
    """Return visits of 40 calls that vary by a few per cent.

    In each visit other work slows all calls but a share that is `undisturbed`.
    """
    draw = random.Random(seed)
    made = builders.visits([typical] * len(slowdowns))
    return [
        dataclasses.replace(
            visit,
            seconds=tuple(
                typical * draw.uniform(1.0, 1.03) * (1.0 if draw.random() < share else slowdown)
                for _ in range(40)
            ),
        )
        for visit, slowdown, share in zip(made, slowdowns, undisturbed, strict=True)
    ]


def summarised(
    slowdowns: Sequence[float],
    *,
    undisturbed: Sequence[float] = (0.15,) * 8,
    unfit: str | None = None,
) -> Results:
    """Return the results of a run in which other work slows the baseline alone."""
    quiet = [1.0] * len(slowdowns)
    arms = {
        BASELINE: visits(0, 0.03, slowdowns, undisturbed),
        "compiled": visits(1, 0.03 / TRUTH, quiet, quiet),
    }
    recorded = {
        arm: [
            ConditionsRecorded(
                arm=arm,
                process=0,
                shape=Shape(1),
                round=number,
                conditions=Conditions(
                    seconds=1.0, stolen_share=0.0, queued_share=None, throttled_seconds=None
                ),
                unfit=unfit,
                discarded=False,
            )
            for number in range(len(made))
        ]
        for arm, made in arms.items()
    }
    state = builders.run_state(
        {
            arm: builders.process(*made, visit_conditions=tuple(recorded[arm]))
            for arm, made in arms.items()
        }
    )
    return run_results.summarise(state, run_results.RACES)


def only_cell(results: Results) -> tuple[Measurement, Cell]:
    measured = run_results.only_measurement(results)
    (cell,) = measured.cells
    return measured, cell


def test_on_a_quiet_machine_the_paired_rounds_count() -> None:
    measured, cell = only_cell(summarised([1.0] * 8))
    assert cell.fastest_calls is None
    assert measured.speedup.value == pytest.approx(TRUTH, rel=0.02)


def test_a_contradiction_widens_the_interval_and_the_fastest_calls_count() -> None:
    results = summarised(SLOWDOWNS)
    measured, cell = only_cell(results)
    assert cell.fastest_calls is not None
    for speedup in (cell.speedup, measured.speedup):
        assert speedup.value == pytest.approx(TRUTH, rel=0.03)
        assert speedup.low is not None
        assert speedup.high is not None
        assert speedup.low < TRUTH < 8 * TRUTH < speedup.high
    baseline = next(each for each in results.measurements if each.arm == BASELINE)
    ratio = baseline.cells[0].seconds.median / cell.seconds.median
    assert ratio == pytest.approx(cell.speedup.value)


def test_where_other_work_explains_the_contradiction_only_the_fastest_calls_count() -> None:
    results = summarised(SLOWDOWNS, unfit="it waited for a processor")
    measured, cell = only_cell(results)
    times = {entry.arm: entry.cells[0].seconds.median for entry in results.measurements}
    assert times[BASELINE] == pytest.approx(0.03, rel=0.02)
    assert times["compiled"] == pytest.approx(0.03 / TRUTH, rel=0.02)
    for speedup in (cell.speedup, measured.speedup):
        assert speedup.value == pytest.approx(TRUTH, rel=0.03)
        assert speedup.low is not None
        assert speedup.high is not None
        assert speedup.low < TRUTH < speedup.high < 1.5 * TRUTH


def test_undisturbed_calls_in_one_visit_of_many_lower_the_interval_alone() -> None:
    all_, one = (
        only_cell(summarised(SLOWDOWNS, undisturbed=shares, unfit="busy"))[1].fastest_calls
        for shares in ((0.15,) * 8, (0.5, *(0.0,) * 7))
    )
    assert all_ is not None
    assert one is not None
    assert all_.low is not None
    assert one.low is not None
    assert one.low < 0.7 * all_.low
    assert one.high == pytest.approx(all_.high, rel=0.05)


def test_few_calls_have_no_second_estimate() -> None:
    state = run_results.run_with(0.1, 0.1, 0.1, against=0.9)
    (cell,) = run_results.only_measurement(run_results.summarise(state, run_results.RACES)).cells
    assert cell.fastest_calls is None
