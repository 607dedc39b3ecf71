"""What the recommendation says about an arm with quantised weights."""

from __future__ import annotations

import builders
import built_answers
from builders import BASELINE, DEMO
from golden_files import Expect

from advisor.domain.constraints import Constraint
from advisor.recommendation.advised_answer import AdvisedAnswer

ENGINE = builders.workflow("engine", arms={"default": {}, "q8": {}}, arm_weights={"q8": "int8"})


def advise(native: float, quantised: float, *constraints: Constraint) -> AdvisedAnswer:
    results = builders.results(
        builders.measurement(BASELINE, speedup=1.0),
        builders.measurement("engine", speedup=native),
        builders.measurement("engine/q8", option="q8", speedup=quantised),
    )
    known = builders.catalogue(ENGINE)
    question = builders.question(model=DEMO, quantised=("int8",), constraints=constraints)
    head = builders.header(question=question, catalogue=known)
    return built_answers.advised(built_answers.answer_of(results, head))


def test_the_best_native_arm_is_named_next_to_a_quantised_answer(expect: Expect) -> None:
    found = advise(2.0, 4.0)
    assert (found.advice.arm, found.advice.best_native) == ("engine/q8", "engine")
    assert len(built_answers.headline(found.answer, "weights")) == 1
    expect("headline-quantised", built_answers.headline(found.answer))


def test_a_native_answer_has_no_such_line() -> None:
    found = advise(4.0, 2.0)
    assert found.advice.arm == found.advice.best_native == "engine"
    assert not built_answers.headline(found.answer, "weights")


def test_a_native_arm_that_fails_a_constraint_is_not_named() -> None:
    found = advise(2.0, 4.0, Constraint(criterion="speedup", at_least=3.0))
    assert (found.advice.arm, found.advice.best_native) == ("engine/q8", None)
