"""The undisturbed level: what the fastest times say, and how far two levels may be apart."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from advisor.decide import fastest_calls
from advisor.decide.intervals import t_quantile, trimmed_mean

ROUNDS = 7
#: The arm is twice as fast as the baseline.
TRUTH = math.log(2.0)


def test_the_level_lies_between_the_fastest_times() -> None:
    times = [[3.0, 1.0, 2.0], [5.0, 4.0]]
    level = fastest_calls.undisturbed_level(times)
    assert level == pytest.approx(1.0 + fastest_calls.FASTEST_SHARE * 4)
    assert fastest_calls.undisturbed_level([[7.0]]) == 7.0


def disturbed_run(
    noise: random.Random, processes: int = 8
) -> tuple[list[list[float]], list[list[float]]]:
    """Return log times of a baseline and an arm on a machine that other work disturbs.

    It disturbs all times of some processes, the baseline more than the arm, and single visits.
    """
    baseline: list[list[float]] = []
    arm: list[list[float]] = []
    for _ in range(processes):
        burden = noise.choice((0.0, 0.0, 0.3, noise.uniform(0.1, 0.6)))
        offset = noise.gauss(0, 0.005)
        for series, level, share in ((baseline, TRUTH, 1.0), (arm, offset, 0.7)):
            series.append(
                [
                    level + share * burden + abs(noise.gauss(0, 0.02)) + burst(noise)
                    for _ in range(ROUNDS)
                ]
            )
    return baseline, arm


def burst(noise: random.Random) -> float:
    return noise.expovariate(4) if noise.random() < 0.1 else 0.0


def paired_mean(baseline: Sequence[Sequence[float]], arm: Sequence[Sequence[float]]) -> float:
    """Return the mean difference over processes and rounds, which disturbances move."""
    return statistics.fmean(
        trimmed_mean([first - second for first, second in zip(*pair, strict=True)])
        for pair in zip(baseline, arm, strict=True)
    )


def test_disturbances_move_the_level_less_than_the_mean() -> None:
    noise = random.Random(1)
    runs = [disturbed_run(noise) for _ in range(40)]
    levels = [fastest_calls.level_difference(*run).value for run in runs]
    means = [paired_mean(*run) for run in runs]
    assert statistics.stdev(levels) < statistics.stdev(means) / 3
    assert statistics.fmean(levels) == pytest.approx(TRUTH, abs=0.01)
    assert statistics.fmean(means) > TRUTH + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("processes", [6, 8])
def test_two_runs_of_the_same_arm_differ_by_no_more_than_their_errors_allow(processes: int) -> None:
    noise = random.Random(2)
    runs = [fastest_calls.level_difference(*disturbed_run(noise, processes)) for _ in range(160)]
    outside = [
        abs(one.value - two.value)
        > t_quantile(0.975, 2 * (processes - 1))
        * math.hypot(one.standard_error, two.standard_error)
        for one, two in zip(runs[::2], runs[1::2], strict=True)
    ]
    assert statistics.fmean(outside) <= 0.05


def test_the_same_times_have_the_same_error() -> None:
    run = disturbed_run(random.Random(3))
    assert fastest_calls.level_difference(*run) == fastest_calls.level_difference(*run)
