"""What fresh processes say that more rounds in one process cannot."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from advisor.statistics import replication
from advisor.statistics.replication import Components


def simulate(
    chance: random.Random, processes: int, rounds: int, *, between: float, within: float
) -> list[list[float]]:
    centres = [chance.gauss(0, between) for _ in range(processes)]
    return [[chance.gauss(centre, within) for _ in range(rounds)] for centre in centres]


def test_the_variances_of_both_levels_are_found_without_bias() -> None:
    chance = random.Random(1)
    found = [
        replication.find_components(simulate(chance, 5, 7, between=0.004, within=0.02))
        for _ in range(2000)
    ]
    assert statistics.fmean(each.within for each in found) == pytest.approx(0.02**2, rel=0.05)
    # Cut off at 0, so a little above the truth.
    assert 0.004**2 * 0.9 < statistics.fmean(each.between for each in found) < 0.004**2 * 2


def test_processes_that_differ_no_more_than_their_rounds_do_have_no_variance_of_their_own() -> None:
    assert replication.find_components([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).between == 0.0


def test_the_interval_includes_how_much_processes_differ() -> None:
    processes = [[0.00, 0.01, 0.00], [0.10, 0.11, 0.10], [0.20, 0.21, 0.20]]
    low, middle, high = replication.interval(processes, 0.025)
    assert middle == pytest.approx(0.1033, abs=1e-3)
    assert low < 0
    assert high > 0.2


def test_one_process_bounds_nothing() -> None:
    assert replication.interval([[0.1, 0.2]], 0.025) == pytest.approx((-math.inf, 0.15, math.inf))


@pytest.mark.parametrize("between", [0.0, 0.004])
def test_the_interval_over_processes_covers_the_truth_as_often_as_it_says(between: float) -> None:
    chance = random.Random(2)
    held = 0
    for _ in range(1000):
        low, _, high = replication.interval(
            simulate(chance, 3, 7, between=between, within=0.02), 0.025
        )
        held += low <= 0 <= high
    assert held >= 930


def test_the_rounds_worth_making_follow_the_costs_and_the_variances() -> None:
    # The example of the literature: 20 s for a process, 10 ms for a round, 2 % within, 0.4 %
    # between.
    assert replication.optimal_rounds(
        Components(within=0.02**2, between=0.004**2), 20.0, 0.010
    ) == pytest.approx(224, abs=1)
    assert replication.optimal_rounds(Components(within=1e-9, between=1.0), 20.0, 0.010) == 1
    assert replication.optimal_rounds(Components(within=1.0, between=0.0), 20.0, 0.5) == 40
