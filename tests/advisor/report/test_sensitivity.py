"""Lines on the robustness, the costs and the published advice of a recommendation."""

from __future__ import annotations

from typing import Any

import built_answers
import msgspec
import pytest
from report_runs import advice_of

from advisor.domain.recommendation import (
    BreakEven,
    EnergyUse,
    GuidelineOpinion,
    Recommendation,
    RunningCost,
    TreeAdvice,
    TreeStep,
)
from advisor.report import sensitivity
from probes.wire.shape import Shape


def advice(**changes: Any) -> Recommendation:
    """Return a recommendation without any of the optional parts, with these changes."""
    empty = {
        "simplex_share": None,
        "pareto": None,
        "break_even": (),
        "costs": (),
        "energy": (),
        "guideline": None,
        "tree": (),
        "next_steps": (),
    }
    return msgspec.structs.replace(advice_of(built_answers.answer()), **{**empty, **changes})


def test_a_recommendation_without_optional_parts_has_no_lines() -> None:
    assert sensitivity.sensitivity(advice()) == []


def test_robustness_has_the_share_of_weightings_and_the_pareto_front() -> None:
    share, front = sensitivity.robustness(advice(simplex_share=0.571, pareto=("one", "two")))
    assert "57 %" in share
    assert "one, two" in front


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (BreakEven(shape=Shape(4), requests=1200.4, low=1000.0, high=1500.0), "1,200 requests"),
        (BreakEven(shape=Shape(4), requests=None, low=None, high=None), "never repaid"),
    ],
)
def test_a_break_even_has_its_requests_or_never_comes(entry: BreakEven, text: str) -> None:
    line = sensitivity.break_even_line(entry)
    assert "batch size 4" in line
    assert text in line


def test_only_the_costs_of_the_recommended_arm_are_listed() -> None:
    costs = tuple(
        RunningCost(arm=arm, shape=Shape(1), value=0.123456, unit="million tokens")
        for arm in ("compiled", "other")
    )
    (line,) = sensitivity.sensitivity(advice(costs=costs))
    assert "compiled" in line
    assert "0.1235 per million tokens" in line


def test_energy_is_listed_per_call_and_per_thousand_requests() -> None:
    use = EnergyUse(arm="compiled", shape=Shape(1), joules_per_call=12.345, watt_hours=3.4291)
    (line,) = sensitivity.sensitivity(advice(energy=(use,)))
    assert "12.3 J per call" in line
    assert "3.43 Wh per thousand requests" in line


@pytest.mark.parametrize("agrees", [True, False, None])
def test_published_advice_is_compared_with_the_measurement(*, agrees: bool | None) -> None:
    guideline = GuidelineOpinion(
        id="one", says="use it", workflows=(), agrees=agrees, why="because", source="a test"
    )
    lines = sensitivity.sensitivity(advice(guideline=guideline))
    assert lines == [
        "Published advice: use it",
        f"  {sensitivity.AGREEMENT[agrees]}: because",
        "  source: a test",
    ]


def test_a_leaf_of_the_decision_tree_has_its_path() -> None:
    steps = (TreeStep(question="a GPU?", answer=True), TreeStep(question="dynamic?", answer=False))
    leaf = TreeAdvice(steps=steps, says="use it", workflows=(), source="a test")
    assert sensitivity.sensitivity(advice(tree=(leaf,)))[1] == "  a GPU? yes; dynamic? no: use it"
