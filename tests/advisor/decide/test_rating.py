"""Ratings of arms by facts, and the cost of adopting a workflow."""

from __future__ import annotations

from typing import Any

import builders
import msgspec
import pytest

from advisor.decide.grades import FactValue, describe_rule, facts_of, figure_for, grade_of, rate
from advisor.decide.scoring import COSTS, adoption_cost
from advisor.domain.rubric import Criterion, GradeRule, TierRule

RUBRIC = builders.shipped_catalogue().rubric


def rule(fact: str, **changes: Any) -> GradeRule:
    return GradeRule(fact=fact, **{"basis": "ours", "source": f"source of {fact}", **changes})


SPEED = rule("speedup", knots=((1.0, 1.0), (1.05, 1.5), (1.2, 2.5)))
SECONDS = rule("build_seconds", knots=((30.0, 3.0), (120.0, 2.5), (900.0, 1.5)), below="flat")
SCOPE = rule("artefact_scope", values={"any": 3.0, "vendor": 2.0})
CRITERION = Criterion(
    id="performance",
    title="Performance",
    question="How fast?",
    grades=(SPEED, SECONDS, SCOPE),
    tiers=tuple(
        TierRule(tier=tier, basis="ours", source="a test", why=f"why {tier}") for tier in (3, 2, 1)
    ),
)
BEST: dict[str, FactValue] = {"speedup": 1.2, "build_seconds": 30.0, "artefact_scope": "any"}


@pytest.mark.parametrize(
    ("changes", "tier", "grade"),
    [
        ({}, 3, 2.5),
        ({"speedup": 1.1999}, 2, 2.499),
        ({"speedup": 9.0, "build_seconds": 120.01}, 2, 2.5),
        ({"artefact_scope": "vendor"}, 2, 2.0),
        ({"speedup": 1.0499}, 1, 1.499),
        ({"speedup": 9.0}, 3, 3.0),
        ({"speedup": None}, 1, 0.0),
        ({"speedup": "fast"}, 1, 0.0),
        ({"artefact_scope": None}, 1, 0.0),
        ({"artefact_scope": "elsewhere"}, 1, 0.0),
    ],
)
def test_the_smallest_grade_of_the_facts_counts(
    changes: dict[str, FactValue], tier: int, grade: float
) -> None:
    rating = rate(CRITERION, {**BEST, **changes}, RUBRIC)
    assert rating.tier == tier
    assert rating.grade == pytest.approx(grade, abs=2e-3)


def test_a_linear_rule_is_linear_between_its_knots() -> None:
    knots = ((0.0, 1.0), (0.1, 2.0), (0.5, 3.0))
    share = rule("share", knots=knots, between="linear", below="flat")
    found = [grade_of(share, value) for value in (-1.0, 0.0, 0.05, 0.1, 0.3, 0.5, 0.7)]
    assert found == pytest.approx([1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    assert [figure_for(share, grade) for grade in (1.5, 2.5)] == pytest.approx([0.05, 0.3])
    assert describe_rule(share) == "share: A >= 0.3, B >= 0.05"


def test_a_rating_names_the_fact_with_the_smallest_grade_and_what_the_next_letter_needs() -> None:
    facts: dict[str, FactValue] = {
        "speedup": 1.5,
        "build_seconds": 300.0,
        "artefact_scope": "vendor",
    }
    rating = rate(CRITERION, facts, RUBRIC)
    assert (rating.fact, rating.value, rating.evidence) == ("artefact_scope", "vendor", "declared")
    assert (rating.source, rating.why) == ("source of artefact_scope", "why 2")
    assert rating.rule == "artefact_scope: A any, B any or vendor"
    build, scope = rating.to_next
    assert (build.tier, build.fact, build.threshold) == (3, "build_seconds", "<= 120")
    assert build.missing == pytest.approx(180.0)
    assert (scope.fact, scope.threshold, scope.missing) == ("artefact_scope", "any", None)


def test_the_best_letter_asks_for_nothing() -> None:
    assert rate(CRITERION, BEST, RUBRIC).to_next == ()


def test_an_optional_unknown_fact_is_left_out() -> None:
    optional = msgspec.structs.replace(SCOPE, optional=True)
    criterion = msgspec.structs.replace(CRITERION, grades=(SPEED, SECONDS, optional))
    assert rate(criterion, {**BEST, "artefact_scope": None}, RUBRIC).tier == 3
    alone = msgspec.structs.replace(CRITERION, grades=(optional,))
    assert rate(alone, {**BEST, "artefact_scope": None}, RUBRIC).grade == 0.0


def test_the_evidence_is_measured_where_the_run_has_the_fact() -> None:
    rating = rate(CRITERION, {**BEST, "artefact_scope": "vendor"}, RUBRIC)
    measured = rate(
        CRITERION, {**BEST, "artefact_scope": "vendor"}, RUBRIC, {"artefact_scope": "measured"}
    )
    assert (rating.evidence, measured.evidence) == ("declared", "measured")


FACTS = facts_of(builders.measurement(), builders.workflow()).values


@pytest.mark.parametrize(
    ("fact", "better", "worse"),
    [
        ("build_seconds", 1.0, 2.0),
        ("lines_changed", 1, 2),
        ("export_step", False, True),
        ("own_environment", False, True),
        ("vendors", 3, 1),
        ("artefact_scope", "vendor", "gpu-model"),
        ("artefact_scope", "gpu-model", "process"),
        ("new_shapes", "served", "recompiles"),
        ("new_shapes", "recompiles", "refused"),
        ("architectures", "most", "listed"),
        ("architectures", "listed", "a word that is not known"),
    ],
)
def test_the_better_fact_costs_less(fact: str, better: FactValue, worse: FactValue) -> None:
    costs = [adoption_cost({**FACTS, fact: value}) for value in (better, worse)]
    assert costs[0] < costs[1]


def test_earlier_costs_outweigh_later_ones() -> None:
    quick = {**FACTS, "build_seconds": 1.0, "vendors": 1, "new_shapes": "refused"}
    slow = {**FACTS, "build_seconds": 2.0, "vendors": 9, "new_shapes": "served"}
    assert adoption_cost(quick) < adoption_cost(slow)


def test_every_cost_is_a_fact() -> None:
    assert {cost.fact for cost in COSTS} <= FACTS.keys()
