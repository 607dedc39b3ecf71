"""Lines on the robustness, the costs and the published advice of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import built_answers
import pytest
from report_runs import with_advice

from advisor.domain.recommendation import (
    BreakEven,
    EnergyUse,
    GuidelineOpinion,
    RunningCost,
    TreeAdvice,
    TreeStep,
)
from advisor.report import parts
from probes.wire.shape import Shape

#: The optional parts of a recommendation.
EMPTY = {
    "simplex_share": None,
    "pareto": None,
    "break_even": (),
    "costs": (),
    "energy": (),
    "guideline": None,
    "tree": (),
    "next_steps": (),
}


def lines(name: str, **changes: Any) -> Sequence[str]:
    """Return the lines of a section of the report; none where it is absent."""
    answer = with_advice(built_answers.answer(), **{**EMPTY, **changes})
    return next((each.lines for each in parts.sections(answer) if each.name == name), ())


def test_a_recommendation_without_optional_parts_has_no_lines() -> None:
    for name in ("cost", "advice", "tree", "next"):
        assert lines(name) == ()


def test_robustness_has_the_share_of_weightings_and_the_pareto_front() -> None:
    *_, share, front = lines("why", simplex_share=0.571, pareto=("one", "two"))
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
    line = parts.break_even_line(entry)
    assert "batch size 4" in line
    assert text in line


def test_only_the_costs_of_the_recommended_arm_are_listed() -> None:
    costs = tuple(
        RunningCost(arm=arm, shape=Shape(1), value=0.123456, unit="million tokens")
        for arm in ("compiled", "other")
    )
    (line,) = lines("cost", costs=costs)
    assert "compiled" in line
    assert "0.1235 per million tokens" in line


def test_energy_is_listed_per_call_and_per_thousand_requests() -> None:
    use = EnergyUse(arm="compiled", shape=Shape(1), joules_per_call=12.345, watt_hours=3.4291)
    (line,) = lines("cost", energy=(use,))
    assert "12.3 J per call" in line
    assert "3.43 Wh per thousand requests" in line


@pytest.mark.parametrize("agrees", [True, False, None])
def test_published_advice_is_compared_with_the_measurement(*, agrees: bool | None) -> None:
    guideline = GuidelineOpinion(
        id="one", says="use it", workflows=(), agrees=agrees, why="because", source="a test"
    )
    assert lines("advice", guideline=guideline) == [
        "use it",
        f"  {parts.AGREEMENT[agrees]}: because",
        "  source: a test",
    ]


def test_a_leaf_of_the_decision_tree_has_its_path() -> None:
    steps = (TreeStep(question="a GPU?", answer=True), TreeStep(question="dynamic?", answer=False))
    leaf = TreeAdvice(steps=steps, says="use it", workflows=(), source="a test")
    assert lines("tree", tree=(leaf,)) == ["a GPU? yes; dynamic? no: use it"]
