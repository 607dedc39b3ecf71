"""What the recommendation says about an arm with quantised weights."""

from __future__ import annotations

import builders
from advisor.recommendation.decision_context import DecisionContext
from builders import BASELINE
from golden_files import Expect

from advisor.domain.constraints import Constraint
from advisor.domain.recommendation import Recommendation
from advisor.recommendation.recommend import recommend

ENGINE = builders.workflow("engine", arms={"default": {}, "q8": {}}, arm_weights={"q8": "int8"})


def advise(native: float, quantised: float, *constraints: Constraint) -> Recommendation:
    results = builders.results(
        builders.measurement(BASELINE, speedup=1.0),
        builders.measurement("engine", speedup=native),
        builders.measurement("engine/q8", speedup=quantised),
    )
    known = builders.catalogue(ENGINE)
    question = builders.question(quantised=("int8",), constraints=constraints)
    context = DecisionContext(rubric=known.rubric, workflows=known.workflows, subject="demo")
    scored = builders.score_arms(results, question, known)
    return recommend(results, scored, question, [], context)


def test_the_best_native_arm_is_named_next_to_a_quantised_answer(expect: Expect) -> None:
    advice = advise(2.0, 4.0)
    assert (advice.arm, advice.best_native) == ("engine/q8", "engine")
    assert advice.headline_parts.count("weights") == 1
    expect("headline-quantised", advice.headline)


def test_a_native_answer_has_no_such_line() -> None:
    advice = advise(4.0, 2.0)
    assert advice.arm == advice.best_native == "engine"
    assert "weights" not in advice.headline_parts


def test_a_native_arm_that_fails_a_constraint_is_not_named() -> None:
    advice = advise(2.0, 4.0, Constraint(criterion="speedup", at_least=3.0))
    assert (advice.arm, advice.best_native) == ("engine/q8", None)
