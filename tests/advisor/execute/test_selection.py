"""Simulated races with known speeds: the choice, its regret, and the coverage of intervals."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

import builders
import pytest
from builders import BASELINE, DUPLICATE
from simulation import NOISE_LEVELS, SimulatedMachine, SimulatedSession, lower_bound, simulate_run

from advisor.decide import decision
from advisor.decide.race import race_result
from advisor.domain.measurement import Interval
from advisor.domain.question import Budget
from advisor.domain.results import RaceResult
from probes.wire.shape import Shape

pytestmark = pytest.mark.slow


#: The shipped budget, without repetitions and further rounds for an open decision.
STANDARD = Budget(name="standard", measuring_seconds=120, most_rounds=40, repeats=0)
WITHIN = 0.02
#: How much slower than the best each arm is, as a share.
SCENARIOS = {
    "clear": (0, 0.10, 0.20, 0.30, 0.50, 0.80, 1.00, 1.50),
    "typical": (0, 0.04, 0.06, 0.10, 0.20, 0.35, 0.60, 1.00),
    "hard": (0, 0.015, 0.03, 0.05, 0.08, 0.12, 0.20, 0.40),
    "tie": (0, 0.003, 0.005, 0.05, 0.10, 0.20, 0.40, 0.60),
}


@dataclasses.dataclass(frozen=True)
class Instance:
    """One simulated run and its true gaps."""

    gaps: dict[str, float]
    session: SimulatedSession
    result: RaceResult

    @property
    def regret(self) -> float:
        """How much slower the selected arm is than the best, as a share."""
        return math.expm1(self.gaps[self.result.best] - min(self.gaps.values()))


def draw_gaps(scenario: str, chance: random.Random) -> dict[str, float]:
    """Return log gaps by arm in random order; the baseline is one of them."""
    shares = SCENARIOS.get(scenario) or (
        0,
        *(math.expm1(chance.gammavariate(1.0, 0.35)) for _ in range(chance.randint(2, 15))),
    )
    names = [BASELINE, *(f"arm-{number}" for number in range(1, len(shares)))]
    chance.shuffle(names)
    return {name: math.log1p(share) for name, share in zip(names, shares, strict=True)}


def race(noise: str, scenario: str, seed: int) -> Instance:
    """Race one instance with the code of the pipeline."""
    chance = random.Random(f"{noise}/{scenario}/{seed}")
    gaps = draw_gaps(scenario, chance)
    session = SimulatedSession(
        SimulatedMachine(NOISE_LEVELS[noise], chance), {**gaps, DUPLICATE: gaps[BASELINE]}
    )
    question = builders.question(budget=STANDARD, seed=seed)
    run = simulate_run(session, [arm for arm in gaps if arm != BASELINE], question)
    return Instance(gaps, session, race_result(run.state, Shape(1), question))


def test_the_selected_arm_is_within_two_percent_of_the_best() -> None:
    made = [
        race(noise, scenario, seed)
        for noise in NOISE_LEVELS
        for scenario in (*SCENARIOS, "random")
        for seed in range(5)
    ]
    right = sum(instance.regret <= WITHIN + 1e-9 for instance in made)
    assert lower_bound(right, len(made)) >= 0.95, f"{right} of {len(made)} within 2 % of the best"
    assert sorted(instance.regret for instance in made)[math.ceil(0.99 * len(made)) - 1] <= 0.03


def test_the_same_seed_visits_in_the_same_order_and_decides_the_same() -> None:
    first, second, other = (
        race("noisy", "hard", 1),
        race("noisy", "hard", 1),
        race("noisy", "hard", 2),
    )
    assert first.session.order == second.session.order
    assert first.result == second.result
    assert first.session.order != other.session.order


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
    return builders.known(interval.low), builders.known(interval.high)


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
