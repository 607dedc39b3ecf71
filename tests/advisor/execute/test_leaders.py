"""Arms whose shapes are tried although they do not lead."""

from __future__ import annotations

import builders
import built_answers
import msgspec
import pytest

from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.plan import Plan
from advisor.domain.results import ScoredArm
from advisor.execute.repetitions import excluded_by_declaration

FLEXIBLE = Constraint(criterion="input_flexibility", at_least=3)
PORTABLE = Constraint(criterion="portability", at_least=3)


def excluded(name: str, score: float, *places: int, evidence: str = "declared") -> ScoredArm:
    failures = tuple(
        FailedConstraint(index=place, constraint=(FLEXIBLE, PORTABLE)[place], value=2)
        for place in places
    )
    arm = builders.scored_arm(name, score=score, failures=failures)
    letter = builders.rating(2, evidence=evidence)
    return msgspec.structs.replace(arm, ratings={**arm.ratings, "input_flexibility": letter})


def found(*arms: ScoredArm, advised: float | None = 2.0) -> list[str]:
    leader = builders.scored_arm("compiled", score=advised or 0.0)
    plan = Plan(arms=tuple(builders.arm(arm.arm) for arm in (leader, *arms)), excluded=())
    answer = built_answers.answer(scores=(*([leader] if advised else []), *arms))
    if not advised:
        answer = msgspec.structs.replace(answer, recommendation=None)
    return [arm.id for arm in excluded_by_declaration(answer, plan)]


def test_arms_that_a_declared_letter_excludes_are_tried_best_first() -> None:
    assert found(excluded("good", 2.5, 0), excluded("better", 2.8, 0)) == ["better", "good"]


@pytest.mark.parametrize(
    "arm",
    [
        excluded("worse", 1.9, 0),
        excluded("bound", 2.5, 0, 1),
        excluded("measured", 2.5, 0, evidence="measured"),
        excluded("free", 2.5),
    ],
    ids=lambda arm: arm.arm,
)
def test_other_arms_are_not_tried(arm: ScoredArm) -> None:
    assert found(arm) == []


def test_without_an_answer_every_such_arm_is_tried() -> None:
    assert found(excluded("worse", 1.9, 0), advised=None) == ["worse"]
