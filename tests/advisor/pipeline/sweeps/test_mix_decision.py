"""The decision for the mix of a sweep."""

from __future__ import annotations

import math

import built_sweeps
import pytest
from built_sweeps import at, decision_at

from advisor.errors import SweepUnfinishedError
from advisor.pipeline.sweeps.decision import decide_mix


def test_the_mix_of_one_length_is_the_decision_there() -> None:
    record = built_sweeps.sweep_record({at(8): 0, at(32): 1, at(128): 0})
    decision = decision_at(at(32), faster=2)
    mix = decide_mix(record, {at(8): decision_at(at(8)), at(32): decision})
    assert mix.recommendation == decision.recommendation
    assert mix.scored == decision.scored
    assert mix.results is decision.results


def test_the_speed_of_the_mix_is_between_those_of_its_lengths() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    decisions = {at(8): decision_at(at(8)), at(32): decision_at(at(32), faster=4)}
    mix = decide_mix(record, decisions)
    assert mix.recommendation is not None
    assert mix.recommendation.arm == "compiled"
    compiled = next(arm for arm in mix.scored if arm.arm == "compiled")
    assert compiled.speedup == pytest.approx(4 * math.sqrt(4))
    assert "2 lengths" in mix.recommendation.headline[0]


def test_the_widest_plan_gives_the_reasons_of_what_is_not_measured() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    limited, full = decision_at(at(8), only=["compiled"]), decision_at(at(32))
    for decisions in ({at(8): limited, at(32): full}, {at(8): full, at(32): limited}):
        plan = decide_mix(record, decisions).state.plan
        assert plan is not None
        assert "broken" in {arm.id for arm in plan.arms}


def test_a_length_without_a_run_leaves_the_mix_without_an_answer() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    with pytest.raises(SweepUnfinishedError) as raised:
        decide_mix(record, {at(8): decision_at(at(8))})
    assert record.sweep_id in raised.value.next_step
    assert "32/16" in raised.value.what
