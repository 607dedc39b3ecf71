"""Tests of the weights of the criteria."""

from __future__ import annotations

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.constraints import CRITERIA, PILLARS, Priorities


@st.composite
def priorities(draw: st.DrawFn) -> Priorities:
    performance = draw(st.integers(0, 100))
    productivity = draw(st.integers(0, 100 - performance))
    further = {
        name: draw(st.integers(0, 50)) for name in ("input_flexibility", "architecture_support")
    }
    return builders.priorities(
        performance, productivity, 100 - performance - productivity, **further
    )


@given(priorities())
def test_the_shares_sum_to_one(weights: Priorities) -> None:
    shares = weights.shares()
    assert set(shares) == set(CRITERIA)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= 0


def test_the_further_criteria_reduce_the_shares_of_the_pillars() -> None:
    shares = builders.priorities(60, 25, 15, input_flexibility=10, architecture_support=30).shares()
    assert shares == pytest.approx(
        {
            "performance": 0.36,
            "productivity": 0.15,
            "portability": 0.09,
            "input_flexibility": 0.1,
            "architecture_support": 0.3,
        }
    )


@given(priorities(), st.tuples(*[st.integers(1, 3)] * 5))
def test_a_score_lies_between_the_lowest_and_the_highest_tier(
    weights: Priorities, tiers: tuple[int, ...]
) -> None:
    score = weights.weigh(dict(zip(CRITERIA, tiers, strict=True)))
    assert min(tiers) - 1e-9 <= score <= max(tiers) + 1e-9


@given(priorities(), st.sampled_from(PILLARS), st.floats(0, 100))
def test_moving_one_weight_keeps_the_sum_and_the_proportion_of_the_others(
    weights: Priorities, pillar: str, weight: float
) -> None:
    moved = weights.with_weight(pillar, weight)
    one, two = (name for name in PILLARS if name != pillar)
    assert getattr(moved, pillar) == weight
    assert sum(getattr(moved, name) for name in PILLARS) == pytest.approx(100)
    assert getattr(moved, one) * getattr(weights, two) == pytest.approx(
        getattr(moved, two) * getattr(weights, one), abs=1e-6
    )
    assert moved.shares()["input_flexibility"] == weights.shares()["input_flexibility"]


def test_pillars_without_weight_share_the_rest_equally() -> None:
    moved = builders.priorities(100, 0, 0).with_weight("performance", 40)
    assert (moved.productivity, moved.portability) == (30, 30)
