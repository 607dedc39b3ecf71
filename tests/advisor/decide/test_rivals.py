"""Which other arms an answer names: a faster one, those as good, those better at some shapes."""

from __future__ import annotations

import math
from typing import Any

import builders
import built_answers
import pytest
from builders import BASELINE
from built_measurements import against_baseline, measured

from advisor.decide import rivals
from advisor.domain.answer import AdvisedAnswer
from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.measurement import Measurement
from advisor.domain.recommendation import SpeedRegret
from probes.accuracy import Accuracy

FAILED = FailedConstraint(index=0, constraint=Constraint("speedup", ">=", 3.0), value=1.0)
WITHIN: dict[str, Any] = {"accuracy_class": "close", "accuracy": Accuracy(relative_error=1e-3)}
CLOSE = {**WITHIN, "rmse": 1e-3}


def advise_compiled(other: Measurement, **changes: Any) -> AdvisedAnswer:
    """Return an answer that advises `compiled` at 2x, with changes of its decision."""
    results = against_baseline(measured("compiled", 2.0, 2.0), other)
    head = built_answers.header_for(results, batch_sizes=(1, 4))
    found = built_answers.with_decision(built_answers.answer_of(results, head), **changes)
    assert built_answers.advice_of(found).arm == "compiled"
    return built_answers.advised(found)


def regret(value: float = 1.2) -> dict[str, Any]:
    return {"speed_regret": SpeedRegret(arm="other", value=value, high=value)}


def test_only_a_clearly_faster_arm_is_named() -> None:
    clearly, hardly = regret(rivals.CLEARLY_FASTER), regret(1.09)
    for changes, is_named in ((clearly, True), (hardly, False), (dict[str, Any](), False)):
        found = rivals.find_faster_arm(advise_compiled(measured("other", 1.5, 1.5), **changes))
        assert (found is not None) == is_named


@pytest.mark.parametrize(
    ("changes", "why_not"),
    [
        ({"failures": (FAILED,)}, "constraint"),
        ({"unproven": True}, "unproven"),
        ({"workflow": "compiled", "score": 5.0}, "as-good"),
        ({"workflow": "compiled", "score": 0.0}, "score"),
        ({"score": 5.0}, "score"),
    ],
)
def test_why_a_faster_arm_is_not_advised(changes: dict[str, Any], why_not: rivals.WhyNot) -> None:
    facts = advise_compiled(measured("other", 1.5, 1.5), **regret())
    answer = built_answers.with_score(facts.answer, "other", **changes)
    found = builders.known(rivals.find_faster_arm(built_answers.advised(answer)))
    assert (found.why_not, found.is_doubtful) == (why_not, "unproven" in changes)


@pytest.mark.parametrize(
    ("checked", "compute_share", "expected"),
    [
        ({}, 1.5, (None, False)),
        (WITHIN, 1.0, (None, False)),
        (CLOSE, 1.0, (1e-3, False)),
        (CLOSE, 1.5, (1e-3, True)),
        ({**CLOSE, "accuracy": Accuracy()}, 1.0, (math.inf, False)),
    ],
)
def test_a_faster_arm_has_its_larger_error_and_its_precision(
    checked: dict[str, Any], compute_share: float, expected: tuple[float | None, bool]
) -> None:
    diagnosis = (builders.call_diagnosis(compute_share=compute_share),)
    checks = (builders.checked(**checked),)
    other = measured("other", 1.5, 1.5, correctness=checks, diagnosis=diagnosis)
    found = builders.known(rivals.find_faster_arm(advise_compiled(other, **regret())))
    assert (found.larger_error, found.is_lower_precision) == expected


def test_each_arm_that_is_as_good_is_named_once() -> None:
    other = measured("compiled/more", 1.5, 1.5)
    equal = {
        "as_good": (BASELINE,),
        "options_as_good": (other.arm,),
        "contenders": {"compiled": 1.0, BASELINE: 0.9},
    }
    facts, little = (advise_compiled(other, **equal, gains_little=each) for each in (False, True))
    for found, shown, names in (
        (facts, "compiled", [BASELINE, other.arm]),
        (facts, BASELINE, ["compiled", other.arm]),
        (little, "compiled", [other.arm]),
    ):
        assert [each.arm for each in rivals.arms_as_good(found, shown)] == names
    decision = facts.decision
    assert [rivals.is_mostly_as_good(decision, each) for each in (other.arm, "no")] == [True, False]


def test_shapes_are_led_by_another_arm_where_it_is_clearly_faster() -> None:
    (found,) = rivals.shapes_led_by_others(advise_compiled(measured("other", 2.6, 1.0)))
    assert (str(found.shape), found.arm) == ("1", "other")
    near = advise_compiled(measured("other", 2.1, 1.0))
    assert near.advice.advice_by_shape[0].arm == "other"
    for facts in (near, advise_compiled(measured("other", 2.6, 1.0), word="OPEN")):
        assert rivals.shapes_led_by_others(facts) == []
