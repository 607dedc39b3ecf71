"""Arms for one precision only are left out in others."""

from __future__ import annotations

from typing import get_args

import builders
import pytest

from advisor.applicability.planning import list_arms, unsupported_use
from advisor.domain.question import Dtype
from probes import protocol


@pytest.mark.parametrize(
    ("dtype", "options"),
    [("float32", {"tf32"}), ("float16", {"fp16-accumulation"}), ("bfloat16", set())],
)
def test_less_exact_products_are_arms_of_their_precision(dtype: Dtype, options: set[str]) -> None:
    less_exact = {"tf32", "fp16-accumulation"}
    question = builders.question(device="cuda", gpu="GPU-1", dtype=dtype)
    for workflow in builders.shipped_catalogue().workflows:
        if less_exact & set(workflow.arms):
            found = {
                arm.option
                for arm in list_arms(workflow, "cuda")
                if unsupported_use(workflow, arm, question) is None
            }
            assert found & less_exact == options


def test_a_model_in_its_own_precision_is_asked_in_the_worker() -> None:
    question = builders.question(device="cuda", gpu="GPU-1", dtype="native")
    (eager,) = [
        workflow
        for workflow in builders.shipped_catalogue().workflows
        if workflow.id == builders.BASELINE
    ]
    arms = {arm.option: arm for arm in list_arms(eager, "cuda")}
    assert unsupported_use(eager, arms["tf32"], question) is None
    assert arms["tf32"].dtypes == ("float32",)
    assert set(arms["default"].dtypes) == set(protocol.PRECISIONS)


def test_workers_know_the_precisions_of_the_catalogue() -> None:
    assert {protocol.NATIVE, *protocol.PRECISIONS} == set(get_args(Dtype))
