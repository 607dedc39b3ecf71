"""Tiers by the rubric's rules, and scores that are linear in the weights."""

from __future__ import annotations

import itertools
import random
from typing import Any

import builders
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import score
from advisor.domain.decision import TierGap
from advisor.domain.measurement import BuildSeconds, Measurement
from advisor.domain.question import CRITERIA, Constraint
from advisor.domain.rubric import Condition, Criterion, Fact, Rubric, TierRule
from advisor.domain.workflow import Environment, Workflow
from advisor.score import FactValue

RUBRIC = Rubric(
    name="a test's",
    minimum_engaged_share=0.05,
    facts={
        "speed": Fact(unit="x", evidence="measured", meaning="how fast"),
        "seconds": Fact(unit="s", evidence="measured", meaning="how long"),
        "scope": Fact(unit="", evidence="declared", meaning="how far"),
    },
    criteria=(),
)


def rule(tier: int, *conditions: Condition) -> TierRule:
    return TierRule(
        tier=tier, all=conditions, basis="ours", source=f"source of {tier}", why=f"why {tier}"
    )


CRITERION = Criterion(
    id="performance",
    title="Performance",
    question="How fast?",
    tiers=(
        rule(
            3,
            Condition(fact="speed", at_least=1.2),
            Condition(fact="seconds", at_most=60),
            Condition(fact="scope", is_one_of=("any",)),
        ),
        rule(2, Condition(fact="speed", at_least=1.05)),
        rule(1),
    ),
)
BEST: dict[str, FactValue] = {"speed": 1.2, "seconds": 60, "scope": "any"}


@pytest.mark.parametrize(
    ("changes", "tier"),
    [
        ({}, 3),
        ({"speed": 1.1999}, 2),
        ({"seconds": 60.01}, 2),
        ({"scope": "vendor"}, 2),
        ({"speed": 1.05, "seconds": 9999, "scope": None}, 2),
        ({"speed": 1.0499}, 1),
        ({"speed": None}, 1),
        ({"speed": "fast"}, 1),
    ],
)
def test_a_tier_is_the_highest_whose_conditions_all_hold(
    changes: dict[str, FactValue], tier: int
) -> None:
    assert score.rate(CRITERION, {**BEST, **changes}, RUBRIC).tier == tier


def test_a_rating_names_the_value_that_kept_it_from_the_next_tier() -> None:
    rating = score.rate(CRITERION, {"speed": 1.5, "seconds": 100.0, "scope": "vendor"}, RUBRIC)
    assert (rating.fact, rating.value, rating.evidence) == ("seconds", 100.0, "measured")
    assert (rating.rule, rating.source, rating.why) == ("speed >= 1.05", "source of 2", "why 2")
    assert rating.to_next == (
        TierGap(tier=3, fact="seconds", value=100.0, threshold="<= 60", missing=40.0),
        TierGap(tier=3, fact="scope", value="vendor", threshold="any", missing=None),
    )


def test_the_best_tier_names_the_first_value_it_rests_on_and_asks_for_nothing() -> None:
    rating = score.rate(CRITERION, BEST, RUBRIC)
    assert (rating.fact, rating.value, rating.to_next) == ("speed", 1.2, ())


def test_the_tier_that_is_left_over_says_so() -> None:
    rating = score.rate(CRITERION, {**BEST, "speed": None}, RUBRIC)
    assert rating.rule == "otherwise"
    assert rating.to_next == (
        TierGap(tier=2, fact="speed", value=None, threshold=">= 1.05", missing=None),
    )


def test_the_evidence_is_that_of_the_deciding_fact() -> None:
    assert score.rate(CRITERION, {**BEST, "scope": "vendor"}, RUBRIC).evidence == "declared"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition(fact="speed", at_least=1.2), ">= 1.2"),
        (Condition(fact="seconds", at_most=900.0), "<= 900"),
        (Condition(fact="scope", is_one_of=("any", "vendor")), "any or vendor"),
        (Condition(fact="scope", is_one_of=(False,)), "no"),
        (Condition(fact="scope", is_one_of=(True, "partly")), "yes or partly"),
    ],
)
def test_a_condition_is_described_in_a_few_signs(condition: Condition, words: str) -> None:
    assert score.describe(condition) == words


@pytest.mark.parametrize(("kind", "own"), [("shared", False), ("own", True), ("container", True)])
def test_an_environment_of_its_own_is_a_fact(kind: Any, own: bool) -> None:
    workflow = builders.workflow(environment=Environment(kind=kind))
    assert score.facts_of(builders.measurement(), workflow, 1.0)["own_environment"] is own


def test_facts_are_taken_from_the_measurement_and_the_declaration() -> None:
    workflow = builders.workflow(declared=builders.declared(vendors=2, export_step=True))
    measured = builders.measurement(speedup=1.5, low=1.3)
    facts = score.facts_of(measured, workflow, 3.0)
    assert facts["fastest_over_it"] == 2.0
    assert (
        facts["speedup_low"],
        facts["cold_build_seconds"],
        facts["vendors"],
        facts["export_step"],
    ) == (1.3, 3.0, 2, True)


@pytest.mark.parametrize(
    ("declared", "measured", "tier", "evidence"),
    [
        ("served", None, 3, "declared"),
        ("served", "refused", 1, "measured"),
        ("refused", "served", 3, "measured"),
        ("served", "recompiles", 2, "measured"),
    ],
)
def test_shapes_that_were_tried_count_before_what_is_declared_about_them(
    declared: str, measured: str | None, tier: int, evidence: str
) -> None:
    workflow = builders.workflow("compiled", declared=builders.declared(new_shapes=declared))
    results = builders.results(builders.measurement("compiled", new_shapes=measured))
    (scored,) = score.score(results, builders.question(), builders.catalogue(workflow))
    rating = scored.ratings["input_flexibility"]
    assert (rating.tier, rating.value, rating.evidence) == (tier, measured or declared, evidence)


@pytest.mark.parametrize(("rival", "tier"), [(3.9, 3), (9.0, 2)])
def test_a_gain_is_not_the_top_one_where_another_arm_brings_substantially_more(
    rival: float, tier: int
) -> None:
    results = builders.results(
        builders.measurement("compiled", speedup=3.3, low=3.2),
        builders.measurement("served", speedup=rival + 0.1, low=rival),
    )
    known = builders.catalogue(builders.workflow("compiled"), builders.workflow("served"))
    arms = score.score(results, builders.question(), known)
    ratings = {arm.arm: arm.ratings["performance"] for arm in arms}
    assert ratings["served"].tier == 3
    assert ratings["compiled"].tier == tier


def test_every_fact_of_the_shipped_rubric_is_known_to_the_score() -> None:
    facts = score.facts_of(builders.measurement(), builders.workflow(), 1.0)
    assert set(builders.shipped_catalogue().rubric.facts) == set(facts)


def scored(
    *measurements: Measurement, workflows: tuple[Workflow, ...] = (), **asked: Any
) -> dict[str, tuple[int, float]]:
    """Return rank and score by arm."""
    names = (
        {entry.workflow for entry in measurements}
        - {workflow.id for workflow in workflows}
        - {builders.BASELINE}
    )
    known = builders.catalogue(*workflows, *(builders.workflow(name) for name in sorted(names)))
    ranked = score.score(builders.results(*measurements), builders.question(**asked), known)
    return {arm.arm: (arm.rank, arm.score) for arm in ranked}


def test_a_score_is_the_weighted_mean_of_the_tiers() -> None:
    # Tiers 2 (speed), 3, 3, 3, 3: only Performance, with 40 % of 80 %, is a tier short.
    assert scored(builders.measurement("one", speedup=1.1))["one"] == pytest.approx(
        (1, 3 - 0.4 * 0.8)
    )


def test_only_what_is_shown_beyond_the_noise_earns_performance() -> None:
    scores = scored(
        builders.measurement("shown", speedup=1.3, low=1.25),
        builders.measurement("hoped", speedup=3.0, low=1.0),
    )
    assert scores["shown"][1] > scores["hoped"][1]


def test_a_speedup_without_a_bound_earns_none() -> None:
    unknown = builders.measurement("one", speedup=9.0)
    unknown = msgspec.structs.replace(
        unknown, speedup=msgspec.structs.replace(unknown.speedup, low=None)
    )
    assert scored(unknown) == scored(builders.measurement("one", speedup=1.0))


def test_equal_scores_are_ranked_by_measured_speed_and_then_by_name() -> None:
    arms = [
        builders.measurement(name, speedup=speed)
        for name, speed in (("slow", 1.3), ("zebra", 1.5), ("apple", 1.5))
    ]
    assert [arm for arm, _ in sorted(scored(*arms).items(), key=lambda entry: entry[1])] == [
        "apple",
        "zebra",
        "slow",
    ]


@given(
    speeds=st.lists(st.floats(0.1, 10), min_size=1, max_size=6),
    chance=st.randoms(use_true_random=False),
)
def test_the_order_of_measurements_does_not_matter(
    speeds: list[float], chance: random.Random
) -> None:
    arms = [
        builders.measurement(f"arm{place}", speedup=speed) for place, speed in enumerate(speeds)
    ]
    assert scored(*chance.sample(arms, len(arms))) == scored(*arms)


@given(
    slower=st.floats(0.1, 5),
    gain=st.floats(0, 5),
    build=st.floats(0, 2000),
    waiting=st.floats(0, 2000),
)
def test_faster_never_scores_lower(
    slower: float, gain: float, build: float, waiting: float
) -> None:
    slow = builders.measurement(
        "slow", speedup=slower, build_seconds=BuildSeconds(cold=build + waiting, warm=None)
    )
    fast = builders.measurement(
        "fast", speedup=slower + gain, build_seconds=BuildSeconds(cold=build, warm=None)
    )
    scores = scored(slow, fast)
    assert scores["fast"][1] >= scores["slow"][1]
    assert gain == 0 or scores["fast"][0] < scores["slow"][0]


tiers = st.tuples(*[st.integers(1, 3)] * len(CRITERIA))
constraints = st.lists(
    st.builds(Constraint, criterion=st.sampled_from(CRITERIA), at_least=st.integers(1, 3)),
    max_size=3,
).map(tuple)


@given(speeds=st.lists(st.floats(0.9, 1.4), min_size=1, max_size=5), required=constraints)
def test_constraints_bar_and_never_bend_a_score(
    speeds: list[float], required: tuple[Constraint, ...]
) -> None:
    arms = [
        builders.measurement(f"arm{place}", speedup=speed) for place, speed in enumerate(speeds)
    ]
    free, bound = scored(*arms), scored(*arms, constraints=required)
    assert {arm: value for arm, (_, value) in free.items()} == {
        arm: value for arm, (_, value) in bound.items()
    }


@given(st.lists(st.tuples(tiers, st.booleans()), min_size=2, max_size=6))
def test_arms_that_fail_a_constraint_come_after_those_that_do_not(
    drawn: list[tuple[tuple[int, ...], bool]],
) -> None:
    arms = [
        builders.scored_arm(f"arm{place}", tiers=tier, fails=("it is barred",) if barred else ())
        for place, (tier, barred) in enumerate(drawn)
    ]
    ranked = score.rank(arms)
    assert [arm.rank for arm in ranked] == list(range(1, len(arms) + 1))
    assert [bool(arm.fails) for arm in ranked] == sorted(barred for _, barred in drawn)
    for one, two in itertools.pairwise(ranked):
        assert one.score >= two.score - 1e-9 or bool(one.fails) < bool(two.fails)


def test_a_constraint_that_is_not_met_is_told_with_both_tiers() -> None:
    arm = builders.scored_arm("one", tiers=(3, 2, 1, 2, 2))
    required = (
        Constraint(criterion="performance", at_least=3),
        Constraint(criterion="portability", at_least=2),
        Constraint(criterion="productivity", at_least=3),
    )
    assert score.failed_constraints(arm.ratings, required) == (
        "portability is tier 1, 2 is required",
        "productivity is tier 2, 3 is required",
    )
