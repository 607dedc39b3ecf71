"""Flips, shares of the weights and constraints, checked against deciding again."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import builders
import pytest
from builders import known, replace
from drawn import weights
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kept.runs import NAMES, decide_run

from advisor.decide import scoring, sensitivity
from advisor.decide.answers import answer_from_results, with_preferences
from advisor.decide.scoring import best_scored, candidates_of
from advisor.domain.constraints import CRITERIA, PILLARS, Constraint, Priorities
from advisor.domain.recommendation import Flip
from advisor.domain.results import ScoredArm
from advisor.report.other_arms import describe_flips

#: How far from a flip it is decided again: more than rounding, less than two flips are apart.
GAP = 1e-3

#: Tiers and speed of each arm.
Field = Sequence[tuple[tuple[int, ...], float]]

tiers = st.tuples(*[st.integers(1, 3)] * len(CRITERIA))
fields = st.lists(st.tuples(tiers, st.sampled_from([0.9, 1.0, 1.5, 2.0])), min_size=1, max_size=6)
PRIORITIES = builders.priorities()
SIDES = {"less": [0.0], "more": [100.0]}
WEIGHTS = weights((0, 10, 25))


def arms_of(field: Field, priorities: Priorities = PRIORITIES) -> tuple[ScoredArm, ...]:
    return scoring.rank(
        [
            builders.scored_arm(f"arm{place}", priorities, tiers=tier, speedup=speed)
            for place, (tier, speed) in enumerate(field)
        ]
    )


@given(fields, st.sampled_from([0.0, 10.0, 25.0, 50.0]))
def test_the_shares_of_the_simplex_sum_to_one(field: Field, further: float) -> None:
    priorities = builders.priorities(input_flexibility=further, architecture_support=further)
    shares = sensitivity.leading_shares(arms_of(field, priorities), priorities)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert min(shares.values()) >= 0


#: Each of these arms leads somewhere.
LEADERS = [((3, 1, 1, 2, 2), 2.0), ((1, 3, 2, 2, 2), 1.0), ((2, 2, 3, 2, 1), 1.1)]


def test_the_shares_are_those_of_deciding_at_random_weights() -> None:
    chance = random.Random(0)
    field = [*LEADERS, ((1, 1, 3, 3, 3), 1.0)]
    wins = dict.fromkeys(["arm0", "arm1", "arm2", "arm3"], 0)
    draws = 4000
    for _ in range(draws):
        cuts = sorted([chance.random(), chance.random()])
        weights = (100 * cuts[0], 100 * (cuts[1] - cuts[0]), 100 * (1 - cuts[1]))
        wins[arms_of(field, builders.priorities(*weights))[0].arm] += 1
    shares = sensitivity.leading_shares(arms_of(field), PRIORITIES)
    assert shares == pytest.approx({arm: won / draws for arm, won in wins.items()}, abs=0.03)


def test_an_arm_leads_within_its_region() -> None:
    field = [*LEADERS, ((1,) * 5, 1.0)]
    regions = sensitivity.leading_regions(arms_of(field), PRIORITIES)
    assert set(regions) == {"arm0", "arm1", "arm2"}
    for arm, corners in regions.items():
        performance, productivity = (
            float(100 * sum(corner[axis] for corner in corners) / len(corners)) for axis in (0, 1)
        )
        weights = (performance, productivity, 100 - performance - productivity)
        assert arms_of(field, builders.priorities(*weights))[0].arm == arm


def test_of_arms_that_score_the_same_everywhere_the_faster_has_the_share() -> None:
    arms = arms_of([((2,) * 5, 1.0), ((2,) * 5, 2.0)])
    assert sensitivity.leading_shares(arms, PRIORITIES) == {"arm0": 0.0, "arm1": 1.0}
    assert list(sensitivity.leading_regions(arms, PRIORITIES)) == ["arm1"]


def test_the_bonus_decides_between_arms_that_score_the_same_everywhere() -> None:
    simple, fast = arms_of([((2,) * 5, 1.0), ((2,) * 5, 2.0)])[::-1]
    arms = (replace(simple, bonus=0.02), fast)
    assert sensitivity.leading_shares(arms, PRIORITIES) == {simple.arm: 1.0, fast.arm: 0.0}


@pytest.mark.parametrize(
    ("name", "criteria"),
    [
        # Without the first one a quantised arm would be in question, whose gain is not shown.
        ("cpu-quantised-demo-llama", ("productivity", "portability")),
        # An unfit machine has no answer without the second one.
        ("cpu-ffn-512x2048", ("productivity", "input_flexibility")),
    ],
)
def test_what_would_be_without_a_constraint_is_what_deciding_without_it_gives(
    name: str, criteria: tuple[str, ...]
) -> None:
    answer, catalogue = decide_run(name), builders.shipped_catalogue()
    both = tuple(Constraint(each, ">=", 3) for each in criteria)
    effects = known(answer_from_results(answer, catalogue, constraints=both).recommendation)
    for effect, other in zip(effects.constraints, reversed(both), strict=True):
        without = answer_from_results(answer, catalogue, constraints=(other,)).recommendation
        assert effect.without == (without and without.arm)


def flips_of(field: Field, priorities: Priorities, pillar: str) -> list[Flip]:
    arms = arms_of(field, priorities)
    return [
        flip
        for flip in sensitivity.find_flips(arms[0], arms, priorities)
        if flip.criterion == pillar
    ]


def leader(field: Field, priorities: Priorities, pillar: str, weight: float) -> str:
    """Decide again with another weight."""
    return arms_of(field, priorities.with_weight(pillar, weight))[0].arm


@given(fields, WEIGHTS, st.sampled_from(PILLARS))
# Scores that are equal now, and a flip just before the weight is gone.
@example(
    [((3, 1, 2, 2, 2), 2.0), ((1, 3, 2, 2, 2), 1.0)], builders.priorities(50, 50, 0), "performance"
)
@example(
    [((2, 2, 2, 2, 2), 1.0), ((1, 3, 1, 2, 2), 1.0)],
    builders.priorities(50, 25.1, 24.9),
    "performance",
)
def test_deciding_again_on_both_sides_of_a_flip_changes_the_answer_as_it_says(
    field: Field, priorities: Priorities, pillar: str
) -> None:
    now, flips = getattr(priorities, pillar), flips_of(field, priorities, pillar)
    for when, end in sensitivity.ENDS.items():
        side = sorted(
            (flip for flip in flips if flip.when == when), key=lambda flip: abs(flip.weight - now)
        )
        places = [now, *(flip.weight for flip in side), end]
        for flip, before, after in zip(side, places, places[2:], strict=False):
            if flip.weight != now:
                assert abs(flip.weight - before) > GAP, "two flips at the same weight are one"
                assert leader(field, priorities, pillar, (before + flip.weight) / 2) != flip.to
            assert leader(field, priorities, pillar, (flip.weight + after) / 2) == flip.to


@given(fields, WEIGHTS, st.sampled_from(PILLARS), st.floats(GAP, 100 - GAP))
def test_the_lead_changes_at_flips_only(
    field: Field, priorities: Priorities, pillar: str, weight: float
) -> None:
    now, flips = getattr(priorities, pillar), flips_of(field, priorities, pillar)
    assume(all(abs(flip.weight - weight) > GAP and flip.weight != now for flip in flips))
    passed = [flip for flip in flips if min(now, weight) <= flip.weight <= max(now, weight)]
    expected = (
        max(passed, key=lambda flip: abs(flip.weight - now)).to
        if passed
        else arms_of(field, priorities)[0].arm
    )
    assert leader(field, priorities, pillar, weight) == expected


def test_of_flips_on_both_sides_the_nearer_comes_first() -> None:
    field = [((2, 2, 2, 2, 2), 1.0), ((1, 3, 2, 2, 2), 1.0), ((3, 1, 1, 2, 2), 1.0)]
    found = flips_of(field, builders.priorities(45, 27.5, 27.5), "performance")
    assert [(round(flip.weight, 6), flip.to) for flip in found] == [
        (50.0, "arm2"),
        (33.333333, "arm1"),
    ]


def test_scores_beyond_the_ninth_place_leave_it_to_the_speed() -> None:
    slow, fast = (
        builders.scored_arm(name, speedup=speedup)
        for name, speedup in (("slow", 1.0), ("fast", 2.0))
    )
    slow, fast = (replace(slow, score=2 + 2e-10), replace(fast, score=2.0))
    assert [each.arm for each in scoring.rank([slow, fast])] == ["fast", "slow"]
    assert best_scored([slow, fast]) == fast
    assert sensitivity.leader_of([slow, fast], {"slow": slow.score, "fast": fast.score}) == "fast"


def test_an_arm_that_leads_at_a_single_point_is_no_flip() -> None:
    """Three scores that cross in one point: the middle one is never ahead, however fast it is."""
    field = [((3, 1, 2, 2, 2), 1.0), ((2, 2, 2, 2, 2), 9.0), ((1, 3, 2, 2, 2), 1.0)]
    for performance in range(51, 100):
        priorities = builders.priorities(performance, 100 - performance, 0)
        arms = arms_of(field, priorities)
        assert {flip.to for flip in sensitivity.find_flips(arms[0], arms, priorities)} == {"arm2"}


def weights_named_in(named: str, now: float) -> list[float]:
    """Return weights of which the words of a flip say that the answer is another one at them."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", named)]
    side = next((word for word in SIDES if f" {word}" in named), "")
    is_next = "any" in named
    numbers += [now + (-0.01 if side == "less" else 0.01)] if is_next else []
    numbers += SIDES[side] if side and ("than" in named or len(numbers) == 1) else []
    return [*numbers, sum(numbers) / len(numbers)]


@pytest.mark.parametrize("name", NAMES)
def test_the_advised_arm_leads_where_the_weights_of_the_question_lie(name: str) -> None:
    answer = decide_run(name)
    advice, priorities = answer.recommendation, answer.question.priorities
    if advice is None:
        return
    eligible = [each for each in answer.scores if not each.failures and not each.unproven]
    corners = sensitivity.leading_regions(eligible, priorities)[advice.arm]
    here = [priorities.performance / 100, priorities.productivity / 100]
    turns = [
        (one[0] - before[0]) * (here[1] - before[1]) - (one[1] - before[1]) * (here[0] - before[0])
        for before, one in zip(corners, [*corners[1:], corners[0]], strict=True)
    ]
    assert min(map(float, turns)) >= -GAP
    assert advice.leading_shares[advice.arm] > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_changes_at_every_weight_of_which_a_flip_says_so(name: str) -> None:
    catalogue, answer = builders.shipped_catalogue(), decide_run(name)
    priorities = answer.question.priorities
    for flip, words in describe_flips(answer):
        for weight in weights_named_in(words, getattr(priorities, flip.criterion)):
            question = with_preferences(
                answer.question, priorities.with_weight(flip.criterion, weight), None
            )
            scored = scoring.score_arms(
                answer.results, question, catalogue.for_question(question), answer.evidence
            )
            viable = [each for each in scored if not each.failures]
            chosen = best_scored(candidates_of(viable, answer.results.baseline))
            assert chosen.arm == flip.to, f"{words}: {weight}"
