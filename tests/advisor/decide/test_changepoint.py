"""Tests of the detection of speed changes and stalled calls."""

from __future__ import annotations

import random

import pytest

from advisor.decide import drift

MARGIN = 0.02


def noise(rounds: int, spread: float, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(0, spread) for _ in range(rounds)]


@pytest.mark.parametrize("place", [3, 6, 10])
@pytest.mark.parametrize("size", [-0.22, 0.1, 0.05])
def test_a_step_is_found_at_any_place_with_its_size(place: int, size: float) -> None:
    series = [
        each + (size if number >= place else 0.0)
        for number, each in enumerate(noise(13, 0.004, seed=place))
    ]
    assert drift.find_shift(series, MARGIN) == pytest.approx(size, abs=0.01)


def test_a_trend_is_found() -> None:
    assert (
        drift.find_shift(
            [0.01 * number + each for number, each in enumerate(noise(13, 0.003, seed=1))], MARGIN
        )
        > MARGIN
    )


def test_a_step_without_any_noise_is_found() -> None:
    assert drift.find_shift([0.0] * 3 + [0.25] * 3, MARGIN) == 0.25
    assert drift.find_shift([0.0] * 8, MARGIN) == 0.0


def test_a_change_within_the_margin_is_ignored() -> None:
    assert drift.find_shift([0.0] * 6 + [0.015] * 6, MARGIN) == 0.0


def test_a_single_outlier_is_not_a_change() -> None:
    series = noise(13, 0.004, seed=3)
    series[6] += 0.5
    assert drift.find_shift(series, MARGIN) == 0.0


@pytest.mark.parametrize("rounds", [0, 1, 4, 5])
def test_too_few_rounds_show_no_change(rounds: int) -> None:
    assert drift.find_shift([0.0, 0.0, 9.0, 9.0, 9.0][:rounds], MARGIN) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("rounds", [6, 13, 40])
def test_noise_rarely_gives_a_false_alarm(spread: float, rounds: int) -> None:
    assert (
        sum(drift.find_shift(noise(rounds, spread, seed), MARGIN) != 0 for seed in range(100)) <= 1
    )


@pytest.mark.parametrize(
    ("seconds", "typical", "stalls"),
    [
        ([0.01, 0.3, 0.01], 0.01, 1),
        ([0.01, 0.2], 0.01, 0),
        ([1.0, 9.0, 11.0], 1.0, 1),
        ([], 1.0, 0),
    ],
)
def test_a_stalled_call_is_long_and_far_above_the_typical_time(
    seconds: list[float], typical: float, stalls: int
) -> None:
    assert drift.count_stalls(seconds, typical) == stalls
