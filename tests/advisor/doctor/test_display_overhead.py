"""The display-overhead check: conclusions from effects, and a run with real screens."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import psutil
import pytest

from advisor.context import Context
from advisor.doctor import display_overhead
from advisor.doctor.findings import Finding
from advisor.statistics.disturbance import Effect
from advisor.statistics.intervals import Estimate


def effect(change: float, spread: float = 0.005, noise: float = 0.01) -> Effect:
    value = math.log1p(change)
    log_ratio = Estimate(value - spread, value, value + spread)
    return Effect(log_ratio=log_ratio, noise=noise, disturbed_noise=noise)


def conclude(**effects: Effect) -> Finding:
    return display_overhead.conclude(effects, seconds=0.003)


def test_a_change_within_the_noise_floor_is_ok() -> None:
    finding = conclude(screens=effect(0.0))
    assert (finding.status, finding.fix) == ("ok", None)
    assert "3 ms" in finding.what
    assert "1.0 %" in finding.what


def test_a_slowdown_beyond_the_noise_floor_is_a_warning_with_its_fix() -> None:
    finding = conclude(slow=effect(0.0), fast=effect(0.05))
    assert finding.status == "warn"
    assert finding.fix is not None
    assert "--json" in finding.fix
    assert "+5.00 %" in finding.what


@pytest.mark.parametrize(("change", "noise"), [(-0.05, 0.01), (0.02, 0.03), (0.004, 0.001)])
def test_a_speedup_and_a_change_without_evidence_are_ok(change: float, noise: float) -> None:
    assert conclude(screens=effect(change, noise=noise)).status == "ok"


@pytest.mark.parametrize("change", [0.0, 0.3])
def test_a_wide_interval_is_a_warning_about_noise(change: float) -> None:
    finding = conclude(screens=effect(change, spread=0.2))
    assert finding.status == "warn"
    assert "too noisy" in finding.what


def test_real_screens_are_started_stopped_and_ended(fake_context: Callable[[], Context]) -> None:
    finding = display_overhead.measure_replay_overhead("", fake_context(), rounds=3)
    assert (finding.name, finding.status) in {("observer", "ok"), ("observer", "warn")}
    assert psutil.Process().children(recursive=True) == []
    assert "screens" not in [thread.name for thread in threading.enumerate()]
