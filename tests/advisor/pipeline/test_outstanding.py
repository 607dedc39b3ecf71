"""Arms that timed out or were not reached, and might lead, keep an answer from being clear."""

from __future__ import annotations

import builders
import built_answers
import msgspec
import pytest

from advisor.domain.answer import Answer, Status, UnmeasuredArm
from advisor.domain.constraints import Constraint
from advisor.domain.interval import Interval

LATE = "late/fast"


def unmeasured(arm: str, status: Status, option: str | None = "fast") -> UnmeasuredArm:
    workflow = arm.partition("/")[0]
    return msgspec.structs.replace(
        builders.unmeasured(workflow, reason="its time was up"),
        arm=arm,
        option=option,
        status=status,
    )


def answer(left: UnmeasuredArm, *constraints: Constraint) -> Answer:
    known = builders.catalogue(
        builders.workflow("compiled"),
        builders.workflow("late", declared=builders.declared(new_shapes="recompiles")),
    )
    question = builders.question(constraints=constraints)
    head = builders.header(question=question, catalogue=known)
    ends = Interval(value=2.0, low=1.98, high=2.02, process_error=0.001)
    measured = builders.results(
        builders.measurement(builders.BASELINE, speedup=1.0),
        msgspec.structs.replace(builders.measurement("compiled"), speedup=ends),
    )
    return built_answers.answer_of(measured, head, unmeasured=(left,))


@pytest.mark.parametrize(
    ("left", "is_outstanding"),
    [
        (unmeasured(LATE, "timed-out"), True),
        (unmeasured(LATE, "excluded"), True),
        (unmeasured(LATE, "crashed"), False),
        (unmeasured(LATE, "unsupported", None), False),
        (unmeasured("compiled/fast", "timed-out"), False),
    ],
    ids=["timed out", "not reached", "crashed", "not planned", "of a measured workflow"],
)
def test_an_arm_that_might_lead_is_named(left: UnmeasuredArm, is_outstanding: bool) -> None:
    found = built_answers.advised(answer(left))
    assert found.certainty.outstanding == ((left.arm,) if is_outstanding else ())
    assert found.certainty.decision_word == ("LIKELY" if is_outstanding else "CLEAR")
    certainty = "".join(built_answers.headline(found.answer, "certainty"))
    assert ("might lead" in certainty) == is_outstanding


def test_an_arm_whose_declared_facts_fail_a_constraint_does_not_count() -> None:
    needed = Constraint(criterion="input_flexibility", at_least=3)
    found = built_answers.advised(answer(unmeasured(LATE, "timed-out"), needed))
    assert (found.certainty.decision_word, found.certainty.outstanding) == ("CLEAR", ())
