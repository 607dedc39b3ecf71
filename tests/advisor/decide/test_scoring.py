"""Facts, constraints, and scores that are linear in the weights."""

from __future__ import annotations

import itertools
from typing import Any

import builders
import pytest
from golden_files import Expect
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import grades, scoring
from advisor.decide.scoring import find_failures
from advisor.domain.accuracy import TrainedLoss
from advisor.domain.constraints import CRITERIA, Constraint, FailedConstraint
from advisor.domain.measurement import BuildSeconds, Measurement
from advisor.domain.rubric import Criterion, GradeRule, TierRule
from advisor.domain.workflow import DeclaredArm, Environment
from probes.accuracy import AccuracyClass

RUBRIC = builders.shipped_catalogue().rubric
FAILED = FailedConstraint(index=0, constraint=Constraint("speedup", ">=", 9.0), value=1.5)


def test_facts_come_from_the_measurement_and_the_declaration() -> None:
    workflow = builders.workflow(
        declared=builders.declared(vendors=2, export_step=True), environment=Environment(kind="own")
    )
    build = BuildSeconds(cold=3.0, warm=None, worst=2.0)
    measured = builders.measurement(speedup=1.5, low=1.3, build_seconds=build)
    facts = grades.facts_of(measured, workflow).values
    names = ("speedup", "build_seconds", "vendors", "export_step", "own_environment")
    assert [facts[name] for name in names] == [1.5, 2.0, 2, True, True]


@pytest.mark.parametrize(
    ("declared", "measured", "complete", "tier", "evidence"),
    [
        ("served", None, True, 3, "declared"),
        ("served", "refused", True, 1, "measured"),
        ("refused", "served", True, 3, "measured"),
        ("served", "recompiles", True, 2, "measured"),
        # A shape that was left out never pays.
        ("recompiles", "served", False, 2, "declared"),
        ("refused", "recompiles", False, 1, "declared"),
        ("served", "recompiles", False, 2, "measured"),
        ("served", "served", False, 3, "measured"),
    ],
)
def test_shapes_that_were_tried_count_before_what_is_declared_about_them(
    declared: str, measured: str | None, *, complete: bool, tier: int, evidence: str
) -> None:
    workflow = builders.workflow("compiled", declared=builders.declared(new_shapes=declared))
    compiled = builders.measurement(
        "compiled", new_shape_behaviour=measured, new_shapes_complete=complete
    )
    (scored,) = scoring.score_arms(
        builders.results(compiled), builders.question(), builders.catalogue(workflow)
    )
    rating = scored.ratings["input_flexibility"]
    value = measured if evidence == "measured" else declared
    assert (rating.tier, rating.value, rating.evidence) == (tier, value, evidence)


@pytest.mark.parametrize(
    ("own", "sibling", "measured", "value", "evidence"),
    [
        ("recompiles", "recompiles", "served", "served", "inferred"),
        ("recompiles", "recompiles", "refused", "recompiles", "declared"),
        ("recompiles", "recompiles", None, "recompiles", "declared"),
        # Arms that are declared to behave differently say nothing about each other.
        ("refused", "recompiles", "served", "refused", "declared"),
    ],
)
def test_an_untried_arm_is_not_behind_a_sibling_that_was_tried(
    own: str, sibling: str, measured: str | None, value: str, evidence: str
) -> None:
    workflow = builders.workflow(
        "compiled",
        declared=builders.declared(new_shapes=own),
        arms={
            "default": DeclaredArm(),
            "tuned": DeclaredArm(
                declared={"new_shapes": builders.declared(new_shapes=sibling).new_shapes}
            ),
        },
    )
    results = builders.results(
        builders.measurement("compiled"),
        builders.measurement("compiled/tuned", new_shape_behaviour=measured),
    )
    scored = scoring.score_arms(results, builders.question(), builders.catalogue(workflow))
    rating = next(each for each in scored if each.arm == "compiled").ratings["input_flexibility"]
    assert (rating.value, rating.evidence) == (value, evidence)


def test_every_fact_of_the_shipped_rubric_is_known_to_the_score() -> None:
    facts = grades.facts_of(builders.measurement(), builders.workflow()).values
    assert set(builders.shipped_catalogue().rubric.facts) == set(facts)


def scored(*measurements: Measurement) -> dict[str, tuple[int, float]]:
    known = builders.catalogue(*(builders.workflow(entry.workflow) for entry in measurements))
    ranked = scoring.score_arms(builders.results(*measurements), builders.question(), known)
    return {each.arm: (each.rank, each.score) for each in ranked}


def test_equal_scores_are_ranked_by_measured_speed_and_then_by_name() -> None:
    arms = [
        builders.measurement(name, speedup=speed)
        for name, speed in (("slow", 1.3), ("zebra", 1.5), ("apple", 1.5))
    ]
    found = sorted(scored(*arms).items(), key=lambda entry: entry[1])
    assert [arm for arm, _ in found] == ["apple", "zebra", "slow"]


tiers = st.tuples(*[st.integers(1, 3)] * len(CRITERIA))


@given(st.lists(st.tuples(tiers, st.booleans()), min_size=2, max_size=6))
def test_arms_that_fail_a_constraint_come_after_those_that_do_not(
    drawn: list[tuple[tuple[int, ...], bool]],
) -> None:
    arms = [
        builders.scored_arm(f"arm{place}", tiers=tier, failures=(FAILED,) if barred else ())
        for place, (tier, barred) in enumerate(drawn)
    ]
    ranked = scoring.rank(arms)
    assert [each.rank for each in ranked] == list(range(1, len(arms) + 1))
    assert [bool(each.failed_constraints) for each in ranked] == sorted(
        barred for _, barred in drawn
    )
    for one, two in itertools.pairwise(ranked):
        assert one.score >= two.score - 1e-9 or bool(one.failed_constraints) < bool(
            two.failed_constraints
        )


def test_a_failed_constraint_names_both_letters(expect: Expect) -> None:
    arm = builders.scored_arm("one", tiers=(3, 2, 1, 2, 2))
    required = (
        Constraint("performance", ">=", 3),
        Constraint("portability", ">=", 2),
        Constraint("productivity", ">=", 3),
    )
    failures = find_failures(arm.ratings, required, builders.measurement())
    assert [(each.index, each.value) for each in failures] == [(1, 1), (2, 2)]
    expect("failed-letters", [each.text for each in failures])


def test_constraints_on_figures_exclude_and_an_unknown_figure_meets_none(expect: Expect) -> None:
    required = (
        Constraint("speedup", ">=", 1.2),
        Constraint("speedup", ">=", 1.6),
        Constraint("memory", "<=", 400 << 20),
        Constraint("memory", "<=", 200 << 20),
        Constraint("build", "<=", 300),
        Constraint("build", "<=", 0.25),
        Constraint("ttft", "<=", 10),
        Constraint("itl", "<=", 10),
    )
    measured = builders.measurement("one", speedup=1.5)
    failures = find_failures(builders.scored_arm("one").ratings, required, measured)
    assert [each.index for each in failures] == [1, 3, 5, 6, 7]
    expect("failed-figures", [each.text for each in failures])


@pytest.mark.parametrize(
    ("loss", "accuracy_class", "has"),
    [
        (TrainedLoss(basis="text", loss_class="B"), "close", ""),
        (TrainedLoss(basis="metric", loss_class="C"), "close", "accuracy is C"),
        (TrainedLoss(basis="text", loss_class="worse"), "close", "accuracy is below C"),
        (
            TrainedLoss(basis="needs-real-weights"),
            "close",
            "accuracy is unknown with random weights",
        ),
        (TrainedLoss(basis="needs-real-weights"), "exact", ""),
        (None, "close", "accuracy is unknown"),
        (None, "exact", ""),
        (None, "unchecked", "accuracy is unknown"),
    ],
)
def test_a_class_of_accuracy_is_measured_or_that_of_exact_outputs(
    loss: TrainedLoss | None, accuracy_class: AccuracyClass, has: str
) -> None:
    measured = builders.measurement(
        "one", trained_loss=loss, correctness=(builders.checked(accuracy_class=accuracy_class),)
    )
    required = (Constraint("accuracy", ">=", 2),)
    failed = find_failures(builders.scored_arm("one").ratings, required, measured)
    wanted = [f"{has}; the constraint requires >=B"] if has else []
    assert [failure.text for failure in failed] == wanted


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
BEST: dict[str, grades.FactValue] = {"speedup": 1.2, "build_seconds": 30.0, "artefact_scope": "any"}


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
    changes: dict[str, grades.FactValue], tier: int, grade: float
) -> None:
    rating = grades.rate(CRITERION, grades.ArmFacts({**BEST, **changes}, {}), RUBRIC)
    assert rating.tier == tier
    assert rating.grade == pytest.approx(grade, abs=2e-3)


def test_a_linear_rule_is_linear_between_its_knots() -> None:
    knots = ((0.0, 1.0), (0.1, 2.0), (0.5, 3.0))
    share = rule("share", knots=knots, between="linear", below="flat")
    found = [grades.grade_of(share, value) for value in (-1.0, 0.0, 0.05, 0.1, 0.3, 0.5, 0.7)]
    assert found == pytest.approx([1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    assert [grades.figure_for(share, grade) for grade in (1.5, 2.5)] == pytest.approx([0.05, 0.3])
    assert grades.describe_rule(share) == "share: A >= 0.3, B >= 0.05"


def test_a_rating_names_the_fact_of_the_lowest_grade_and_what_the_next_letter_needs() -> None:
    facts: dict[str, grades.FactValue] = {
        "speedup": 1.5,
        "build_seconds": 300.0,
        "artefact_scope": "vendor",
    }
    rating = grades.rate(CRITERION, grades.ArmFacts(facts, {}), RUBRIC)
    assert (rating.fact, rating.value, rating.evidence) == ("artefact_scope", "vendor", "declared")
    assert (rating.source, rating.why) == ("source of artefact_scope", "why 2")
    assert rating.rule == "artefact_scope: A any, B any or vendor"
    build, scope = rating.to_next
    assert (build.tier, build.fact, build.threshold) == (3, "build_seconds", "<= 120")
    assert (scope.fact, scope.threshold) == ("artefact_scope", "any")


def test_an_optional_unknown_fact_is_left_out() -> None:
    optional = builders.replace(SCOPE, optional=True)
    criterion = builders.replace(CRITERION, grades=(SPEED, SECONDS, optional))
    facts = grades.ArmFacts({**BEST, "artefact_scope": None}, {})
    assert grades.rate(criterion, facts, RUBRIC).tier == 3
    assert grades.rate(builders.replace(CRITERION, grades=(optional,)), facts, RUBRIC).grade == 0.0
