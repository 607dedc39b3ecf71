"""Arms for models with which other arms vary are planned only where the question names them."""

from __future__ import annotations

import builders
import pytest
from builders import BASELINE

from advisor.applicability import planning

RUNTIME = builders.workflow(
    "runtime",
    arms={"host": {}, "one-thread": {"threads": 1}},
    arms_after_nondeterministic=("one-thread",),
)


@pytest.mark.parametrize(
    ("named", "arms"),
    [
        ((), {"runtime/host"}),
        (("runtime",), {"runtime/host"}),
        (("runtime/one-thread",), {"runtime/one-thread"}),
    ],
)
def test_a_fallback_is_planned_only_by_its_name(named: tuple[str, ...], arms: set[str]) -> None:
    plan = planning.plan(
        builders.question(workflows=named), builders.machine(), builders.catalogue(RUNTIME)
    )
    assert {arm.id for arm in plan.arms} - {BASELINE, f"{BASELINE}#duplicate"} == arms
