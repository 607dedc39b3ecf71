"""Tests of the weights of the criteria."""

from __future__ import annotations

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.question import (
    CRITERIA,
    PILLARS,
    Constraint,
    LoadQuestion,
    Priorities,
    RequestLengths,
)


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


def test_a_composed_server_is_built_for_the_longest_requests_and_for_the_checked_ones() -> None:
    lengths = tuple(
        RequestLengths(input_tokens=one, output_tokens=other) for one, other in ((100, 8), (50, 40))
    )
    load = LoadQuestion(name="mine", lengths=lengths, ttft_seconds=0.5, itl_seconds=0.05)
    asked = builders.question(task="serve", load=load, input_tokens=32, output_tokens=64)
    longest = asked.with_longest_requests()
    assert (longest.task, longest.load) == ("generate", None)
    assert (longest.input_tokens, longest.output_tokens) == (100, 64)
    assert load.most_tokens == 108


def test_a_model_that_is_split_is_measured_on_all_its_gpus() -> None:
    device = builders.gpu()
    header = builders.header(
        machine=builders.gpu_machine(device),
        question=builders.question(
            device="cuda", gpu=device.uuid, further_gpus=("GPU-2",), price_per_hour=2.0
        ),
    )
    assert header.device == f"2x {device.name}"
    assert header.question.price_of_all_devices == 4.0
    assert builders.question().price_of_all_devices is None
    assert builders.question().gpus == ()


@pytest.mark.parametrize(
    ("constraint", "value", "text"),
    [
        (Constraint(criterion="speedup", at_least=3.0), 2.77633, "2.78x"),
        (Constraint(criterion="speedup", at_least=2.8), 2.79964, "2.7996x"),
        (Constraint(criterion="build", at_most=5.0), 5.86001, "5.86s"),
        (Constraint(criterion="ttft", at_most=0.2), 0.20123456, "201ms"),
        (Constraint(criterion="memory", at_most=200 * 2**20), 300.4 * 2**20, "300MiB"),
        (Constraint(criterion="portability", at_least=2), 1, "C"),
    ],
)
def test_a_measured_value_has_few_digits_and_never_seems_to_meet_the_bound(
    constraint: Constraint, value: float, text: str
) -> None:
    assert constraint.write_measured(value) == text
