"""Shares of the weights and constraints, checked against deciding again."""

from __future__ import annotations

import pathlib
import random
import re
from collections.abc import Sequence

import builders
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import scoring, sensitivity
from advisor.decide.certainty import candidates_of, choose
from advisor.decide.decision import decide_again, with_preferences
from advisor.decide.scoring import find_failures
from advisor.domain.answer import Answer
from advisor.domain.constraints import CRITERIA, Constraint, Priorities
from advisor.domain.results import ScoredArm

tiers = st.tuples(*[st.integers(1, 3)] * len(CRITERIA))
fields = st.lists(st.tuples(tiers, st.sampled_from([0.9, 1.0, 1.5, 2.0])), min_size=1, max_size=6)
PRIORITIES = builders.priorities()
EVIDENCE = sorted((pathlib.Path(__file__).parents[2] / "stacks" / "evidence").glob("*.json"))
SIDES = {"less": [0.0], "more": [100.0]}


def arms_of(
    field: Sequence[tuple[tuple[int, ...], float]], priorities: Priorities = PRIORITIES
) -> tuple[ScoredArm, ...]:
    return scoring.rank(
        [
            builders.scored_arm(f"arm{place}", priorities, tiers=tier, speedup=speed)
            for place, (tier, speed) in enumerate(field)
        ]
    )


@given(fields, st.sampled_from([0.0, 10.0, 25.0, 50.0]))
def test_the_shares_of_the_simplex_sum_to_one(
    field: list[tuple[tuple[int, ...], float]], further: float
) -> None:
    priorities = builders.priorities(input_flexibility=further, architecture_support=further)
    shares = sensitivity.leading_shares(arms_of(field, priorities), priorities)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert min(shares.values()) >= 0


def test_the_shares_are_those_of_deciding_at_random_weights() -> None:
    chance = random.Random(0)
    field = [
        ((3, 1, 1, 2, 2), 2.0),
        ((1, 3, 2, 2, 2), 1.0),
        ((2, 2, 3, 2, 1), 1.1),
        ((1, 1, 3, 3, 3), 1.0),
    ]
    wins = dict.fromkeys(["arm0", "arm1", "arm2", "arm3"], 0)
    draws = 4000
    for _ in range(draws):
        cuts = sorted([chance.random(), chance.random()])
        weights = (100 * cuts[0], 100 * (cuts[1] - cuts[0]), 100 * (1 - cuts[1]))
        wins[arms_of(field, builders.priorities(*weights))[0].arm] += 1
    shares = sensitivity.leading_shares(arms_of(field), PRIORITIES)
    assert shares == pytest.approx({arm: won / draws for arm, won in wins.items()}, abs=0.03)


def test_an_arm_leads_within_its_region() -> None:
    field = [
        ((3, 1, 1, 2, 2), 2.0),
        ((1, 3, 2, 2, 2), 1.0),
        ((2, 2, 3, 2, 1), 1.1),
        ((1,) * 5, 1.0),
    ]
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


@given(
    fields,
    st.lists(
        st.builds(Constraint, criterion=st.sampled_from(CRITERIA), at_least=st.integers(2, 3)),
        min_size=1,
        max_size=3,
    ),
)
def test_what_would_be_without_a_constraint_is_what_deciding_without_it_gives(
    field: list[tuple[tuple[int, ...], float]], constraints: list[Constraint]
) -> None:
    free = arms_of(field)

    def decide(required: list[Constraint]) -> str | None:
        ranked = exclude(required)
        return None if ranked[0].failed_constraints else ranked[0].arm

    def exclude(required: list[Constraint]) -> tuple[ScoredArm, ...]:
        return scoring.rank(
            [
                msgspec.structs.replace(arm, failures=find_failures(arm.ratings, required))
                for arm in free
            ]
        )

    answer = decide(constraints)
    bound = exclude(constraints)
    for place, effect in enumerate(sensitivity.constraint_effects(bound, constraints, answer)):
        without = decide([*constraints[:place], *constraints[place + 1 :]])
        assert effect.without == without


def test_a_constraint_that_excludes_no_leader_keeps_an_answer_that_does_not_lead() -> None:
    arms = arms_of([((3, 2, 2, 2, 2), 2.0), ((2, 3, 2, 2, 2), 1.5)])
    required = [Constraint(criterion="portability", at_least=2)]
    simplest = arms[1].arm
    (effect,) = sensitivity.constraint_effects(arms, required, simplest)
    assert effect.without == simplest


def weights_named_in(named: str, now: float) -> list[float]:
    """Return weights of which the words of a flip say that the answer is another one at them."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", named)]
    side = next((word for word in SIDES if f" {word}" in named), "")
    is_next = "any" in named
    numbers += [now + (-0.01 if side == "less" else 0.01)] if is_next else []
    numbers += SIDES[side] if side and ("than" in named or len(numbers) == 1) else []
    return [*numbers, sum(numbers) / len(numbers)]


@pytest.mark.parametrize("file", EVIDENCE, ids=lambda file: file.stem)
def test_an_answer_changes_at_every_weight_of_which_a_flip_says_so(file: pathlib.Path) -> None:
    catalogue = builders.shipped_catalogue()
    answer = decide_again(msgspec.json.decode(file.read_bytes(), type=Answer), catalogue)
    advice, priorities = answer.recommendation, answer.question.priorities
    for flip, words in sensitivity.describe_flips(advice, priorities) if advice else ():
        for weight in weights_named_in(words, getattr(priorities, flip.criterion)):
            question = with_preferences(
                answer.question, priorities.with_weight(flip.criterion, weight), None
            )
            scored = scoring.score_arms(
                answer.results, question, catalogue.for_question(question), answer.evidence
            )
            viable = [arm for arm in scored if not arm.failures]
            chosen = choose(candidates_of(viable, answer.results.baseline))
            assert chosen.arm == flip.to, f"{words}: {weight}"
