"""The fixed host work of each visit."""

from __future__ import annotations

import pytest
from fake_clock import FakeClock, replace_clocks

from probes.measuring import host_probe


def test_one_interruption_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = FakeClock(), iter([0.001, 0.001] * 30 + [0.0] * 30 + [9.0] + [0.0] * 29)
    replace_clocks(monkeypatch, host_probe, clock)
    monkeypatch.setattr(host_probe, "LAUNCHES", 30)
    assert host_probe.time_host(lambda: clock.advance(next(pauses))) == pytest.approx(0.03)


def test_there_is_no_launch_without_a_gpu() -> None:
    assert host_probe.find_launch() is None
