"""The comparison of a baseline and its duplicate with and without a disturbance."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator

import pytest

from advisor.statistics.disturbance import Pair, estimate_effect, sample_in_rounds


def pairs(rounds: int, slowdown: float, seed: int, bias: float = 0.0) -> list[Pair]:
    """Return log seconds that drift by the same amounts for the same rounds."""
    drift, noise = random.Random(1), random.Random(seed)
    result = []
    for _ in range(rounds):
        level = drift.gauss(0, 0.1) + math.log1p(slowdown)
        result.append((level + noise.gauss(0, 0.005), level + bias + noise.gauss(0, 0.005)))
    return result


@pytest.mark.parametrize("slowdown", [0.0, 0.05, -0.05])
def test_the_effect_is_estimated_whatever_the_drift(slowdown: float) -> None:
    effect = estimate_effect(pairs(16, 0.0, 2), pairs(16, slowdown, 3))
    assert effect.value == pytest.approx(slowdown, abs=0.005)
    assert effect.low < effect.value < effect.high
    assert effect.largest_log_ratio >= abs(math.log1p(slowdown))


def test_the_noise_is_the_difference_between_baseline_and_duplicate() -> None:
    effect = estimate_effect(pairs(16, 0.0, 2), pairs(16, 0.0, 3, bias=0.1))
    assert effect.noise < 0.01
    assert effect.disturbed_noise == pytest.approx(math.expm1(0.1), abs=0.01)


def test_a_single_round_has_no_bounds() -> None:
    effect = estimate_effect([(0.0, 0.0)], [(0.1, 0.1)])
    assert (effect.low, effect.high, effect.noise) == (-1.0, math.inf, math.inf)
    assert effect.value == pytest.approx(math.expm1(0.1))


def test_each_round_samples_every_condition_in_random_order() -> None:
    active: list[str] = []
    log: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def activate(name: str) -> Iterator[None]:
        active.append(name)
        yield
        active.remove(name)

    def measure(name: str, number: int) -> str:
        assert active == [name]
        log.append((name, number))
        return f"{name}{number}"

    conditions = {"a": lambda: activate("a"), "b": lambda: activate("b")}
    samples = sample_in_rounds(conditions, measure, rounds=20)
    assert samples["a"] == [f"a{number}" for number in range(1, 21)]
    assert [number for _, number in log] == [number for number in range(1, 21) for _ in "ab"]
    assert {name for name, _ in log[::2]} == {"a", "b"}
