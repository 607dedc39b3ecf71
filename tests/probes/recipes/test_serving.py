"""What a recipe times: blocks of calls in turn, each after a rest; where the device streams, calls too that nobody waits for in between."""

from __future__ import annotations

import gc
import itertools
import types
from typing import Any

import numpy as np
import pytest

from probes.checking import correctness
from probes.measuring import timing
from probes.recipes import serving

CALL_SECONDS, LATE_SECONDS = 0.002, 0.004


class Device:
    """Takes calls at once and works each off in a while; stands for the module `time` too, and for threads that spin until a moment."""

    def __init__(self) -> None:
        self.now = self.free_at = self.spins_until = 0.0
        self.calls = self.rests = 0

    def perf_counter(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return round(self.now * 1e9)

    def process_time(self) -> float:
        return min(self.now, self.spins_until)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.rests += 1

    def call(self, _: str) -> None:
        self.calls += 1
        self.now += CALL_SECONDS
        self.free_at = max(self.free_at, self.now) + LATE_SECONDS

    def synchronise(self) -> None:
        self.now = max(self.now, self.free_at)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    for module in (serving, timing):
        monkeypatch.setattr(module, "time", device)
    return device


def time_alone(device: Device, kind: str, seconds: float = 0.2) -> serving.Speed:
    request = types.SimpleNamespace(device=kind, block_seconds=0.06)
    (speed,) = serving.time_in_turn(
        [serving.Caller(device.call, ["input"])], device.synchronise, seconds, request
    )
    return speed


def test_a_call_that_is_waited_for_takes_host_and_device_one_after_the_other(
    device: Device,
) -> None:
    speed = time_alone(device, "cpu")
    assert speed.seconds == speed.each_seconds == pytest.approx(CALL_SECONDS + LATE_SECONDS)


def test_calls_that_nobody_waits_for_overlap_on_host_and_device(device: Device) -> None:
    speed = time_alone(device, "cuda")
    assert speed.seconds == pytest.approx(CALL_SECONDS + LATE_SECONDS)
    assert speed.each_seconds == pytest.approx((CALL_SECONDS + 10 * LATE_SECONDS) / 10), (
        "a block has ten calls"
    )


def test_two_take_turns_in_blocks_with_all_their_inputs_until_the_time_of_both_is_over(
    device: Device,
) -> None:
    called: list[str] = []

    def caller(name: str) -> serving.Caller:
        def call(value: str) -> None:
            called.append(name + value)
            device.call(value)

        return serving.Caller(call, ["1", "2", "3"])

    request = types.SimpleNamespace(device="cpu", block_seconds=0.03)
    first, second = serving.time_in_turn(
        [caller("a"), caller("b")], device.synchronise, 0.4, request
    )
    assert first == second
    visits = [next(group) for _, group in itertools.groupby(name[0] for name in called)]
    assert visits == ["a", "b"] * (len(visits) // 2)
    assert len(visits) // 2 - 1 > serving.TURNS, "the first of each warms up"
    assert device.rests == len(visits) - 2, "every other one comes after a rest"
    assert {*called} == {"a1", "a2", "a3", "b1", "b2", "b3"}
    assert device.now == pytest.approx(0.9, rel=0.15)


def test_what_is_there_is_not_collected_between_blocks_and_is_again_afterwards(
    device: Device,
) -> None:
    frozen: list[int] = []

    def call(value: str) -> None:
        frozen.append(gc.get_freeze_count())
        device.call(value)

    request = types.SimpleNamespace(device="cpu", block_seconds=0.03)
    serving.time_in_turn([serving.Caller(call, ["1"])], device.synchronise, 0.0, request)
    assert all(frozen[1:]), "the first warms up"
    assert gc.get_freeze_count() == 0, "what a recipe drops between batch sizes must go"


def test_however_short_the_time_all_have_their_turns(device: Device) -> None:
    time_alone(device, "cpu", 0.0)
    assert device.calls == 1 + serving.TURNS * 11, (
        "one to warm up; each block has ten, and one that does not count"
    )


def test_who_spins_after_a_call_is_waited_for_but_not_for_ever(device: Device) -> None:
    device.spins_until = 0.06
    serving.rest()
    assert device.now == pytest.approx(0.06 + serving.REST_SECONDS)
    device.spins_until = 1e9
    serving.rest()
    assert device.now == pytest.approx(0.065 + serving.MOST_RESTS * serving.REST_SECONDS)


class Small:
    """A model that returns its input, and a program that returns it with an error."""

    dtype = "float32"

    def __init__(self, error: float) -> None:
        self.error = error
        self.module = self

    def run(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def __call__(self, fed: Any) -> Any:
        return fed + self.error

    def collect(self, output: Any) -> list[Any]:
        return [output]


@pytest.mark.parametrize(("elements", "multiplier"), [(10, 10), (999, 10), (1000, 2)])
def test_what_the_measurement_allows_a_recipe_allows_too_and_eager_s_own_error_beside(
    elements: int, multiplier: int
) -> None:
    target, eager = np.ones(elements), 1e-3
    allowed = (multiplier + 1) * eager + 1e-5
    assert correctness.measure_error(
        target + eager, target, eager, "float32"
    ).allowed == pytest.approx(allowed - eager)

    def compare(error: float) -> float:
        small = Small(error)
        return serving.compare(small, [target], small, [[target]], lambda: None, [eager])

    assert compare(0.99 * allowed) == pytest.approx(0.99)
    with pytest.raises(ArithmeticError, match="do not serve"):
        compare(1.01 * allowed)
