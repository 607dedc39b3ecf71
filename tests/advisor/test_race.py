"""Test of the public library API `advisor.race`."""

from __future__ import annotations

import math
import random

import pytest

from advisor.race import Race, Ratio, Verdict


def test_a_caller_drives_a_race_with_its_own_measurements() -> None:
    seconds = {"eager": 0.4, "compiled": 0.1}
    generator = random.Random(0)
    race = Race(["eager", "compiled"], baseline="eager", epsilon=0.02, delta=0.05, seed=0)
    while not race.finished:
        for arm in race.next_round():
            race.record(arm, math.log(seconds[arm]) + generator.gauss(0, 0.01))
    assert race.verdict == Verdict(
        kind="PROVEN",
        best="compiled",
        tied=("compiled",),
        unresolved=(),
        rounds=4,
        eliminated={"eager": 4},
    )
    ratio = race.ratio("compiled", to="eager")
    assert isinstance(ratio, Ratio)
    assert ratio.value == pytest.approx(0.25, rel=0.05)
    assert ratio.low < ratio.value < ratio.high
