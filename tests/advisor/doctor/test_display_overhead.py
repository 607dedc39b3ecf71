"""Whether watching disturbs what is timed: what is said about figures, and a look at real screens."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psutil
import pytest

from advisor.context import Context
from advisor.doctor import display_overhead


def judge(
    slower_by: float, spread: float = 0.005, rounds: int = 12
) -> display_overhead.Observation:
    chance = random.Random(4)
    drift = [chance.gauss(0, 0.1) for _ in range(rounds)]
    without, again, watched = (
        [level + chance.gauss(0, spread) for level in drift] for _ in range(3)
    )
    return display_overhead.judge(
        without, again, [each + slower_by for each in watched], seconds=0.003, polls=True
    )


def test_nothing_that_can_be_seen_is_said_with_its_figures() -> None:
    seen = judge(0.0)
    assert seen.status == "ok"
    assert seen.words.startswith("a call of 3 ms takes ")
    assert "the screens and the GPU's poller running" in seen.words
    assert "changes nothing that can be seen" in seen.words


def test_a_slowdown_beyond_the_noise_is_said_with_what_to_do() -> None:
    seen = judge(0.05)
    assert seen.status == "warn"
    assert "watching slows what is timed" in seen.words
    assert seen.fix is not None
    assert "--json" in seen.fix
    assert seen.change == pytest.approx((0.05, 0.05, 0.05), abs=0.01)


def test_a_machine_that_is_too_noisy_is_said_to_be() -> None:
    seen = judge(0.0, spread=0.2)
    assert seen.status == "warn"
    assert "too noisy to tell" in seen.words


def test_what_is_faster_is_no_disturbance() -> None:
    assert judge(-0.05).status == "ok"


def test_real_screens_are_started_let_rest_and_ended(fake_world: Callable[[], Context]) -> None:
    seen = display_overhead.observe("", fake_world(), rounds=3)
    assert seen.status in {"ok", "warn"}
    assert "takes" in seen.words
    assert psutil.Process().children(recursive=True) == []
    assert "screens" not in [thread.name for thread in threading.enumerate()]
