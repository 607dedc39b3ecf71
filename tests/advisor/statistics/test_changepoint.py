"""A speed that changes while it is measured is seen; one that only varies is not."""

from __future__ import annotations

import random

import pytest

from advisor.statistics import changepoint

MARGIN = 0.02


def noise(rounds: int, spread: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(0, spread) for _ in range(rounds)]


@pytest.mark.parametrize("place", [3, 6, 10])
@pytest.mark.parametrize("size", [-0.22, 0.1, 0.05])
def test_a_step_is_found_wherever_it_comes_and_with_its_size(place: int, size: float) -> None:
    series = [
        each + (size if number >= place else 0.0)
        for number, each in enumerate(noise(13, 0.004, seed=place))
    ]
    assert changepoint.find_shift(series, MARGIN) == pytest.approx(size, abs=0.01)


def test_a_trend_is_found() -> None:
    assert (
        changepoint.find_shift(
            [0.01 * number + each for number, each in enumerate(noise(13, 0.003, seed=1))], MARGIN
        )
        > MARGIN
    )


def test_a_step_without_any_noise_is_found() -> None:
    assert changepoint.find_shift([0.0] * 3 + [0.25] * 3, MARGIN) == 0.25
    assert changepoint.find_shift([0.0] * 8, MARGIN) == 0.0


def test_what_is_within_the_margin_is_no_change() -> None:
    assert changepoint.find_shift([0.0] * 6 + [0.015] * 6, MARGIN) == 0.0


def test_one_odd_round_is_no_change() -> None:
    series = noise(13, 0.004, seed=3)
    series[6] += 0.5
    assert changepoint.find_shift(series, MARGIN) == 0.0


@pytest.mark.parametrize("rounds", [0, 1, 4, 5])
def test_too_few_rounds_show_no_change(rounds: int) -> None:
    assert changepoint.find_shift([0.0, 0.0, 9.0, 9.0, 9.0][:rounds], MARGIN) == 0.0


@pytest.mark.parametrize("spread", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("rounds", [6, 13, 40])
def test_what_only_varies_is_hardly_ever_said_to_change(spread: float, rounds: int) -> None:
    assert (
        sum(changepoint.find_shift(noise(rounds, spread, seed), MARGIN) != 0 for seed in range(200))
        <= 1
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
def test_a_stall_is_long_and_much_longer_than_the_rest(
    seconds: list[float], typical: float, stalls: int
) -> None:
    assert changepoint.count_stalls(seconds, typical) == stalls
