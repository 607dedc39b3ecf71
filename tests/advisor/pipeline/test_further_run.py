"""The question of a further run: which workflows, which budget, on which machine."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import msgspec
import pytest
from recorded_runs import make_run

from advisor.catalogue import rubric_files
from advisor.context import Context
from advisor.errors import GpuNotAttachedError
from advisor.pipeline.further_run import (
    arms_to_retry,
    longer_budget,
    propose_again,
    undecided_workflows,
)
from advisor.report.documents.opening import read_document
from advisor.store.store import Store

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"


def test_the_failed_arms_are_retried_by_their_names_in_the_option(tmp_path: pathlib.Path) -> None:
    state = make_run(Store(tmp_path), finished=True).state()
    assert arms_to_retry(state) == ("broken/default",)


def test_no_run_is_drafted_without_the_gpu_of_the_question(
    tmp_path: pathlib.Path, fake_context: Callable[[], Context]
) -> None:
    header = make_run(Store(tmp_path), finished=True).header()
    question = msgspec.structs.replace(
        header.question, gpu="GPU-gone", device="cuda", python=sys.executable
    )
    header = msgspec.structs.replace(header, question=question)
    with pytest.raises(GpuNotAttachedError):
        propose_again(header, ("broken/default",), fake_context())


def test_an_open_decision_is_measured_again_for_its_contenders_alone() -> None:
    document = read_document(str(EVIDENCE / "cpu-demo.json"))
    question = msgspec.structs.replace(document.question, workflows=("vllm", "openvino"))
    assert document.recommendation is not None
    undecided = msgspec.structs.replace(
        document.recommendation, decision_word="OPEN", contenders=("openvino", "iree")
    )
    assert undecided_workflows(undecided, question) == undecided.contenders
    clear = msgspec.structs.replace(undecided, decision_word="CLEAR")
    assert undecided_workflows(clear, question) == question.workflows
    assert undecided_workflows(None, question) == question.workflows


@pytest.mark.parametrize(
    ("present", "longer"),
    [("quick", "standard"), ("standard", "thorough"), ("thorough", "thorough")],
)
def test_the_longer_budget_is_the_next_one_of_the_catalogue(present: str, longer: str) -> None:
    catalogue = rubric_files.load()
    budgets = catalogue.presets.budgets
    question = read_document(str(EVIDENCE / "cpu-demo.json")).question
    question = msgspec.structs.replace(question, budget=budgets[present])
    assert longer_budget(question, catalogue) == budgets[longer]
