"""Runs of the same question confirm each other's intervals, on simulated machines."""

from __future__ import annotations

import itertools
import math
import random

import builders
import pytest
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, simulate_run

from advisor.domain.interval import Interval
from advisor.pipeline import decision

pytestmark = pytest.mark.slow

PRESETS = builders.shipped_catalogue().presets
GAPS = {BASELINE: 0.0, "first": -0.5, "close": -0.47, "middle": -0.2, "slower": 0.1}
RUNS = 20
#: Shares of compatible pairs, and of intervals that contain the truth.
MOST_COMPATIBLE, LEAST_COVERAGE = 0.95, 0.93


def simulate(noise: str, seed: int) -> dict[str, Interval]:
    """Return the speed-ups of a simulated run with one repetition."""
    session = SimulatedSession(
        SimulatedMachine(NOISE_LEVELS[noise], random.Random(seed)), {**GAPS, DUPLICATE: 0.0}
    )
    question = builders.question(budget=PRESETS.budgets["quick"], seed=seed)
    run = simulate_run(session, [arm for arm in GAPS if arm != BASELINE], question)
    results = decision.evaluate(run.header, run.state).results
    return {
        entry.arm: entry.cells[0].speedup for entry in results.measurements if entry.arm != BASELINE
    }


def bounds(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


@pytest.mark.parametrize("noise", ["quiet", "normal", "noisy"])
def test_intervals_of_two_runs_overlap_and_contain_the_truth(noise: str) -> None:
    runs = [simulate(noise, seed) for seed in range(RUNS)]
    overlaps = [
        bounds(one[arm])[0] <= bounds(two[arm])[1] and bounds(two[arm])[0] <= bounds(one[arm])[1]
        for one, two in itertools.combinations(runs, 2)
        for arm in one
    ]
    covered = [
        bounds(interval)[0] <= math.exp(-GAPS[arm]) <= bounds(interval)[1]
        for run in runs
        for arm, interval in run.items()
    ]
    assert sum(overlaps) >= MOST_COMPATIBLE * len(overlaps)
    assert sum(covered) >= LEAST_COVERAGE * len(covered)
