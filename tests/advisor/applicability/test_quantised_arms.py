"""Arms with quantised weights are planned only where the question asks for their format."""

from __future__ import annotations

from typing import Any

import builders
import pytest
from builders import BASELINE

from advisor import applicability
from advisor.domain.plan import Plan
from advisor.domain.worker_settings import measured_fields

ENGINE = builders.workflow(
    "engine",
    arms={"default": {}, "q8": {"weights": "Q8"}, "q4": {"weights": "Q4"}},
    arm_weights={"q8": "int8", "q4": "int4"},
)


def plan(**asked: Any) -> Plan:
    return applicability.plan(
        builders.question(**asked), builders.machine(), builders.catalogue(ENGINE)
    )


def planned(**asked: Any) -> set[str]:
    return {arm.id for arm in plan(**asked).arms} - {BASELINE, f"{BASELINE}#duplicate"}


@pytest.mark.parametrize(
    ("quantised", "arms"),
    [
        ((), {"engine"}),
        (("int8",), {"engine", "engine/q8"}),
        (("int8", "int4", "fp8"), {"engine", "engine/q8", "engine/q4"}),
        (("fp8",), {"engine"}),
    ],
)
def test_a_format_is_planned_only_when_it_is_asked_for(
    quantised: tuple[str, ...], arms: set[str]
) -> None:
    assert planned(quantised=quantised) == arms


def test_a_named_quantised_arm_needs_the_option_too() -> None:
    named = plan(workflows=("engine/q4",))
    (excluded,) = named.excluded
    assert (excluded.workflow, excluded.status) == ("engine", "excluded")
    assert excluded.fix == "add --quantised int4"
    assert planned(workflows=("engine/q4",), quantised=("int4",)) == {"engine/q4"}


def test_the_numerics_follow_from_the_weights() -> None:
    arms = {arm.id: arm for arm in plan(quantised=("int4",)).arms}
    assert (arms["engine"].numerics, arms["engine"].weights) == ("native", None)
    assert (arms["engine/q4"].numerics, arms["engine/q4"].weights) == ("quantised", "int4")


def test_native_arms_keep_the_rules_of_accuracy_and_quantised_ones_do_not() -> None:
    question = builders.question(quantised=("int4",), accuracy=1e-3)
    rules = builders.shipped_catalogue().accuracy
    assert rules is not None
    assert rules.quantised is not None
    arms = {arm.id: arm for arm in plan(quantised=("int4",)).arms}
    native, quantised = (
        measured_fields(question, arms[name], 1, rules)["accuracy"]
        for name in ("engine", "engine/q4")
    )
    assert native["close"]["tolerance"] == 1e-3
    assert quantised["close"]["tolerance"] == rules.quantised.tolerance
    assert quantised["exact"] == native["exact"]
    assert native["text"]["exact_divergence"] > quantised["text"]["exact_divergence"] == 0
    assert set(quantised["text"]["gap"].values()) == {rules.quantised.gap}
    assert set(native) == {"exact", "close", "repeats", "envelope", "text"}
