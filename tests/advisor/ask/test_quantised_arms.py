"""Arms with quantised weights are planned only where the question asks for their format."""

from __future__ import annotations

from typing import Any

import builders
import pytest
from builders import BASELINE

from advisor.ask import planning
from advisor.domain.machine import Machine
from advisor.domain.plan import Plan, measured_fields
from advisor.domain.workflow import Environment

ENGINE = builders.workflow(
    "engine",
    arms={"default": {}, "q8": {"weights": "Q8"}, "q4": {"weights": "Q4"}},
    arm_weights={"q8": "int8", "q4": "int4"},
)


def plan(**asked: Any) -> Plan:
    return planning.plan(builders.question(**asked), builders.machine(), builders.catalogue(ENGINE))


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
        measured_fields(question, arms[name], 1, rules, {})["accuracy"]
        for name in ("engine", "engine/q4")
    )
    assert native["close"]["tolerance"] == 1e-3
    assert quantised["close"]["tolerance"] == rules.quantised.tolerance
    assert quantised["exact"] == native["exact"]
    assert min(native["text"]["exact_divergence"].values()) > 0
    assert set(quantised["text"]["exact_divergence"].values()) == {0}
    assert set(quantised["text"]["gap"].values()) == {rules.quantised.gap}
    assert set(native) == {"exact", "close", "repeats", "envelope", "text"}


WRITER = Environment(kind="own", name="writer", requirements=("llmcompressor>=0.12",))
WRITTEN = builders.workflow(
    "engine",
    arms={"default": {}, "written": {"scheme": "W8A8"}},
    arm_weights={"written": "int8"},
    arm_quantiser={"written": WRITER},
)


def plan_written(machine: Machine, **asked: Any) -> Plan:
    return planning.plan(builders.question(**asked), machine, builders.catalogue(WRITTEN))


def test_an_arm_has_the_interpreter_that_writes_its_checkpoint() -> None:
    found = plan_written(builders.machine_with_environment("writer"), quantised=("int8",))
    quantisers = {arm.id: arm.quantiser for arm in found.arms}
    assert (quantisers["engine"], quantisers["engine/written"]) == ("", "/env/bin/python")
    assert found.excluded == ()


def test_the_interpreter_of_the_question_writes_it_if_it_has_the_packages() -> None:
    packages = {"torch": "2.13.0", "llmcompressor": "0.14.0.1"}
    software = builders.interpreter(packages=packages)
    found = plan_written(builders.machine(software=software), quantised=("int8",))
    assert {arm.quantiser for arm in found.arms} == {"", software.executable}


@pytest.mark.parametrize(
    "machine", [builders.machine(), builders.machine_with_environment("writer", "it is gone")]
)
def test_an_arm_without_it_is_not_installed_and_the_others_are_measured(machine: Machine) -> None:
    found = plan_written(machine, quantised=("int8",))
    assert "engine" in {arm.id for arm in found.arms}
    (excluded,) = found.excluded
    assert (excluded.workflow, excluded.status) == ("engine/written", "not-installed")
    assert excluded.fix == "p3-advisor env create writer"


def test_the_environment_is_not_missed_where_no_arm_needs_it() -> None:
    assert plan_written(builders.machine()).excluded == ()
    assert plan_written(builders.machine(), quantised=("int4",)).excluded == ()
