"""Failures that are known faults of a stack have a next step."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import builders
import pytest
from advisor.report.documents import known_faults, measured_document
from advisor.report.documents.workflow_entry import WorkflowEntry
from builders import BASELINE

from advisor.catalogue import rubric_files
from advisor.domain.outcome import Completed, Failure, Incorrect
from advisor.domain.workflow import KnownFault, Workflow
from advisor.report import markdown
from advisor.report.sections.unranked import unranked

FAULT = KnownFault(
    statuses=("incorrect",),
    dtypes=("bfloat16",),
    compute_capabilities=("==9.0",),
    description="its products are wrong",
    next_step="ask for another precision",
    source="https://example.org/1",
)
NEXT_STEP = "ask for another precision: its products are wrong (https://example.org/1)"
FAULTY = [workflow for workflow in rubric_files.load().workflows if workflow.faults]


def header_with(*known: KnownFault, capability: str | None = "9.0", dtype: str = "bfloat16") -> Any:
    attached = () if capability is None else (builders.gpu(compute_capability=capability),)
    uuid = attached[0].uuid if attached else None
    return builders.header(
        question=builders.question(device="cuda" if uuid else "cpu", gpu=uuid, dtype=dtype),
        machine=builders.gpu_machine(*attached) if attached else builders.machine(),
        catalogue=builders.catalogue(builders.workflow("broken", faults=known)),
    )


def test_a_known_fault_has_its_next_step_description_and_source() -> None:
    assert known_faults.find_next_step(header_with(FAULT), "broken", "incorrect") == NEXT_STEP


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"capability": "8.0"}, "incorrect"),
        ({"capability": None}, "incorrect"),
        ({"dtype": "float32"}, "incorrect"),
        ({}, "crashed"),
    ],
)
def test_other_gpus_dtypes_and_statuses_have_no_known_fault(
    other: dict[str, Any], status: str
) -> None:
    assert known_faults.find_next_step(header_with(FAULT, **other), "broken", status) is None


def test_a_fault_without_limits_fits_every_machine() -> None:
    everywhere = KnownFault(
        statuses=("crashed",), description="it ends", next_step="update it", source="a test"
    )
    for capability in ("8.0", None):
        found = known_faults.find_next_step(
            header_with(everywhere, capability=capability, dtype="native"), "broken", "crashed"
        )
        assert found == "update it: it ends (a test)"


def entry(failure: Failure) -> WorkflowEntry:
    processes = {
        BASELINE: builders.process(outcome=Completed()),
        builders.DUPLICATE: builders.process(outcome=Completed()),
        "broken": builders.process(ready=False, outcome=failure),
    }
    state = builders.run_state(processes, plan=builders.plan("broken"))
    made = measured_document.compose(
        builders.decision(header=header_with(FAULT), state=state, scored=())
    )
    (found,) = (each for each in made.workflows if each.arm == "broken")
    return found


def test_the_document_prefers_the_fix_of_the_outcome() -> None:
    assert entry(Incorrect(phase="correctness", reason="r")).fix == NEXT_STEP
    assert entry(Incorrect(phase="correctness", reason="r", fix="its own")).fix == "its own"


def test_the_text_report_has_the_next_step_below_the_reason() -> None:
    lines = unranked(builders.document())
    assert lines[1:3] == ["  broken: crashed, it crashed", "    next: update it"]


def test_markdown_has_the_next_step_after_the_reason() -> None:
    assert "crashed: it crashed; next: update it" in markdown.render(builders.document())


def test_a_missing_workflow_has_no_next_step_of_its_own() -> None:
    assert not any("next" in line for line in unranked(builders.document())[3:])


@pytest.mark.parametrize("workflow", FAULTY, ids=lambda workflow: workflow.id)
def test_every_shipped_fault_has_a_source(workflow: Workflow) -> None:
    root = pathlib.Path(rubric_files.rubric_directory()).parent
    for fault in workflow.faults:
        files = re.findall(r"tests/[\w/.-]+", fault.source)
        assert re.search(r"https://\S+", fault.source) or files
        assert all((root / file).is_file() for file in files)
