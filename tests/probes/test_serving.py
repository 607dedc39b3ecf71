"""What a recipe times: calls in turn, each waited for; and, where the device streams, rows of calls that nobody waits for in between."""

from __future__ import annotations

import types

import pytest

from probes import serving

CALL_SECONDS, LATE_SECONDS = 0.002, 0.004


class Device:
    """Takes calls at once and works each off in a while, by a clock of its own."""

    def __init__(self) -> None:
        self.now = self.free_at = 0.0
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        self.now += CALL_SECONDS
        self.free_at = max(self.free_at, self.now) + LATE_SECONDS

    def synchronise(self) -> None:
        self.now = max(self.now, self.free_at)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(serving, "time", types.SimpleNamespace(perf_counter=lambda: device.now))
    return device


def test_a_call_that_is_waited_for_takes_host_and_device_one_after_the_other(device: Device) -> None:
    assert serving.time_in_turn([device.call], device.synchronise, 0.2) == [pytest.approx(CALL_SECONDS + LATE_SECONDS)]


def test_calls_that_nobody_waits_for_overlap_on_host_and_device(device: Device) -> None:
    streamed = serving.time_streamed(device.call, device.synchronise, CALL_SECONDS + LATE_SECONDS, 0.4)
    assert device.calls == (serving.TURNS + 1) * 9
    assert streamed == pytest.approx((CALL_SECONDS + 9 * LATE_SECONDS) / 9)


def test_a_row_has_one_call_at_least(device: Device) -> None:
    serving.time_streamed(device.call, device.synchronise, 10.0, 0.01)
    assert device.calls == serving.TURNS + 1
