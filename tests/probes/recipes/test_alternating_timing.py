"""The timing of a recipe: alternating blocks of calls, each when the process is idle."""

from __future__ import annotations

import gc
import itertools
import types

import pytest
from fake_clock import replace_clocks

from probes.measuring import timing
from probes.recipes import alternating_timing
from probes.recipes.alternating_timing import (
    IDLE_SECONDS,
    MAX_IDLE_CHECKS,
    MIN_ROUNDS,
    Speed,
    TimedProgram,
    time_alternately,
)

CALL_SECONDS, LATE_SECONDS = 0.002, 0.004


class Device:
    """Replaces a device that queues calls, the module `time`, and threads that spin."""

    def __init__(self) -> None:
        self.now = self.free_at = self.spins_until = 0.0
        self.calls = self.sleeps = 0

    def perf_counter(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return round(self.now * 1e9)

    def process_time(self) -> float:
        return min(self.now, self.spins_until)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1

    def call(self, _: str) -> None:
        self.calls += 1
        self.now += CALL_SECONDS
        self.free_at = max(self.free_at, self.now) + LATE_SECONDS

    def synchronise(self) -> None:
        self.now = max(self.now, self.free_at)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(alternating_timing, "time", device)
    replace_clocks(monkeypatch, timing, device)
    return device


def time_alone(device: Device, kind: str, seconds: float = 0.2) -> Speed:
    request = types.SimpleNamespace(device=kind, block_seconds=0.06)
    (speed,) = time_alternately(
        [TimedProgram(device.call, ["input"])],
        device.synchronise,
        seconds,
        request,
    )
    return speed


def test_a_call_with_a_wait_takes_the_time_of_host_and_device(
    device: Device,
) -> None:
    speed = time_alone(device, "cpu")
    assert speed.seconds == speed.streamed_seconds == pytest.approx(CALL_SECONDS + LATE_SECONDS)


def test_calls_without_waits_overlap_on_host_and_device(device: Device) -> None:
    speed = time_alone(device, "cuda")
    assert speed.seconds == pytest.approx(CALL_SECONDS + LATE_SECONDS)
    assert speed.streamed_seconds == pytest.approx((CALL_SECONDS + 10 * LATE_SECONDS) / 10), (
        "a block has ten calls"
    )


def test_two_programs_alternate_with_all_their_inputs_until_their_time_is_over(
    device: Device,
) -> None:
    called: list[str] = []

    def program(name: str) -> TimedProgram:
        def call(value: str) -> None:
            called.append(name + value)
            device.call(value)

        return TimedProgram(call, ["1", "2", "3"])

    request = types.SimpleNamespace(device="cpu", block_seconds=0.03)
    first, second = time_alternately([program("a"), program("b")], device.synchronise, 0.4, request)
    assert first == second
    blocks = [next(group) for _, group in itertools.groupby(name[0] for name in called)]
    assert blocks == ["a", "b"] * (len(blocks) // 2)
    assert len(blocks) // 2 - 1 > MIN_ROUNDS, "the first block of each is the warm-up"
    assert device.sleeps == len(blocks) - 2, "each block except the warm-up waits until idle"
    assert {*called} == {"a1", "a2", "a3", "b1", "b2", "b3"}
    assert device.now == pytest.approx(0.9, rel=0.15)


def test_present_objects_are_not_collected_between_blocks(
    device: Device,
) -> None:
    frozen: list[int] = []

    def call(value: str) -> None:
        frozen.append(gc.get_freeze_count())
        device.call(value)

    request = types.SimpleNamespace(device="cpu", block_seconds=0.03)
    time_alternately([TimedProgram(call, ["1"])], device.synchronise, 0.0, request)
    assert all(frozen[1:]), "the first call is the warm-up"
    assert gc.get_freeze_count() == 0, "objects of a batch size must be freed after it"


def test_every_program_is_timed_however_short_the_time(device: Device) -> None:
    time_alone(device, "cpu", 0.0)
    assert device.calls == 1 + MIN_ROUNDS * 11, (
        "one warm-up call; ten calls a block after another warm-up call"
    )


def test_the_wait_for_an_idle_process_is_limited(device: Device) -> None:
    device.spins_until = 0.06
    alternating_timing.wait_until_idle()
    assert device.now == pytest.approx(0.06 + IDLE_SECONDS)
    device.spins_until = 1e9
    alternating_timing.wait_until_idle()
    assert device.now == pytest.approx(0.065 + MAX_IDLE_CHECKS * IDLE_SECONDS)
