"""Lines on the costs and the published advice of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import built_answers
import built_measurements
import pytest
from built_answers import with_advice, with_results

from advisor.domain.recommendation import GuidelineOpinion, RunningCost
from advisor.report import parts
from probes.wire.shape import Shape

#: The optional parts of a recommendation.
EMPTY = {
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
        id="one", says="use it", workflows=(), agrees=agrees, source="a test"
    )
    assert lines("advice", guideline=guideline) == [
        "use it",
        f"  {parts.AGREEMENT[agrees]}",
        "  source: a test",
    ]
