"""Detection of the steady part in traces whose steady value is known, with a fake clock.

`python -m pytest -m long tests/probes/measuring/test_warmup_detection.py` tests 2,000 of each.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest
from fake_clock import replace_clocks

from probes.measuring import timing
from probes.wire.shape import Shape

Trace = Callable[[int], float]
NANOSECONDS_PER_SECOND = 1e9
MIN_SECONDS = 0.2
TRACES: dict[str, Trace] = {
    "first call only": lambda number: 1000.0 if number == 0 else 1.0,
    "three calls to record a graph": lambda number: (
        (3000.0, 50.0, 20.0)[number] if number < 3 else 1.0
    ),
    "exponential over 20 calls": lambda number: (
        (500 if number == 0 else 1) * (1 + math.exp(-number / 20))
    ),
    "step at call 100": lambda number: (
        (500 if number == 0 else 1) * (1.25 if number < 100 else 1.0)
    ),
}


def slow_exponential(number: int) -> float:
    return (500 if number == 0 else 1) * (1 + 0.5 * math.exp(-number / 60))


def ever_slower(number: int) -> float:
    return 1 + number / 200


class Stack:
    """Replaces a stack and the module `time`; calls take the duration of the trace, with noise."""

    def __init__(self, trace: Trace, seconds: float, seed: int) -> None:
        self.trace, self.seconds, self.random = trace, seconds, random.Random(seed)
        self.nanoseconds = self.number = 0

    def __call__(self, _: object) -> None:
        outlier = 1 + self.random.expovariate(1 / 0.3) if self.random.random() < 0.01 else 1.0
        factor = math.exp(self.random.gauss(0, 0.02)) * outlier * self.trace(self.number)
        self.nanoseconds += round(self.seconds * factor * NANOSECONDS_PER_SECOND)
        self.number += 1

    def perf_counter_ns(self) -> int:
        return self.nanoseconds

    def perf_counter(self) -> float:
        return self.nanoseconds / NANOSECONDS_PER_SECOND


def warm_up(
    monkeypatch: pytest.MonkeyPatch, trace: Trace, seconds: float, traces: int
) -> list[tuple[float, bool]]:
    """Return, by trace, the relative error of the typical duration and whether it is steady."""
    found = []
    for seed in range(traces):
        stack = Stack(trace, seconds, seed)
        replace_clocks(monkeypatch, timing, stack)
        calls = timing.Calls(stack, ["input"], lambda: None)
        result = timing.warm_up(calls, MIN_SECONDS, Shape(1))
        found.append((abs(result.typical_seconds / seconds - 1), result.steady))
    return found


def test_the_error_is_within_one_percent_or_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = 40
    for name, trace in TRACES.items():
        found = warm_up(monkeypatch, trace, 0.001, traces)
        bias = sorted(bias for bias, _ in found)[math.ceil(0.95 * traces) - 1]
        assert bias <= 0.01, f"{name}: off by {bias:.1%}"
    slow = warm_up(monkeypatch, slow_exponential, 0.001, traces)
    assert statistics.fmean(not steady or bias <= 0.02 for bias, steady in slow) >= 0.9
    never = warm_up(monkeypatch, ever_slower, 0.001, traces)
    assert statistics.fmean(not steady for _, steady in never) >= 0.9


def test_calls_with_noise_alone_are_steady_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = warm_up(monkeypatch, lambda _: 1.0, 0.001, 200)
    assert all(steady for _, steady in found), "a false alarm in 200 clean warm-ups"


@pytest.mark.parametrize(("count", "enough"), [(4, False), (5, False), (11, False), (12, True)])
def test_few_calls_are_not_enough(count: int, enough: bool) -> None:
    assert timing.find_cut([0.1] * count).enough is enough


def test_the_variances_agree_with_their_definition() -> None:
    generator = random.Random(5)
    values = [1000 + generator.gauss(0, 1) for _ in range(50)]
    expected = [
        statistics.pvariance(values[cut:]) / (len(values) - cut) for cut in range(len(values))
    ]
    assert timing.variances_of_means(values) == pytest.approx(expected)


def test_thousands_of_batches_take_one_pass() -> None:
    assert timing.find_cut([2e-5] * 1000 + [1e-5] * 200_000).calls == 1000
