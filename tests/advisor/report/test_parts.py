"""Lines on the robustness, the costs and the published advice of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import built_answers
import built_measurements
import pytest
from report_runs import with_advice, with_results

from advisor.domain.recommendation import BreakEven, GuidelineOpinion, RunningCost
from advisor.report import parts
from probes.wire.shape import Shape

#: The optional parts of a recommendation.
EMPTY = {
    "simplex_share": None,
    "break_even": (),
    "costs": (),
    "guideline": None,
    "next_steps": (),
}


def lines(name: str, **changes: Any) -> Sequence[str]:
    """Return the lines of a section of the report; none where it is absent."""
    answer = with_advice(built_answers.answer(), **{**EMPTY, **changes})
    return next((each.lines for each in parts.sections(answer) if each.name == name), ())


def test_a_recommendation_without_optional_parts_has_no_lines() -> None:
    for name in ("cost", "advice", "next"):
        assert lines(name) == ()


def test_robustness_has_the_share_of_weightings() -> None:
    assert "57 %" in lines("why", simplex_share=0.571)[-1]


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
    check = built_measurements.sustained(joules_per_call={"one": 12.345, "two": None})
    answer = with_results(built_answers.answer(), sustained=check)
    (cost,) = (each.lines for each in parts.sections(answer) if each.name == "cost")
    (line,) = (each for each in cost if "J per call" in each)
    assert line.startswith("one at batch size 4: 12.3 J per call, 0.857 Wh per thousand")


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
