"""A failure that is known beyond this machine says so, with what helps; one that is not keeps its own words."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import builders
import pytest
from builders import BASELINE

from advisor import catalogue
from advisor.domain.outcome import Completed, Failure, Incorrect
from advisor.domain.workflow import KnownFault, Workflow
from advisor.report import document, known_faults, markdown, table

FAULT = KnownFault(
    statuses=("incorrect",),
    dtypes=("bfloat16",),
    compute_capabilities=("==9.0",),
    what="its products are wrong",
    next_step="ask for another precision",
    source="https://example.org/1",
)
TOLD = "ask for another precision: its products are wrong (https://example.org/1)"
FAULTY = [workflow for workflow in catalogue.load().workflows if workflow.faults]


def header_with(*known: KnownFault, capability: str | None = "9.0", dtype: str = "bfloat16") -> Any:
    attached = () if capability is None else (builders.gpu(compute_capability=capability),)
    uuid = attached[0].uuid if attached else None
    return builders.header(
        question=builders.question(device="cuda" if uuid else "cpu", gpu=uuid, dtype=dtype),
        machine=builders.gpu_machine(*attached) if attached else builders.machine(),
        catalogue=builders.catalogue(builders.workflow("broken", faults=known)),
    )


def test_a_known_fault_is_told_with_what_helps_and_who_says_so() -> None:
    assert known_faults.find_next_step(header_with(FAULT), "broken", "incorrect") == TOLD


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"capability": "8.0"}, "incorrect"),
        ({"capability": None}, "incorrect"),
        ({"dtype": "float32"}, "incorrect"),
        ({}, "crashed"),
    ],
)
def test_it_is_told_of_nothing_else(other: dict[str, Any], status: str) -> None:
    assert known_faults.find_next_step(header_with(FAULT, **other), "broken", status) is None


def test_a_fault_without_limits_is_one_everywhere() -> None:
    everywhere = KnownFault(
        statuses=("crashed",), what="it ends", next_step="update it", source="a test"
    )
    for capability in ("8.0", None):
        found = known_faults.find_next_step(
            header_with(everywhere, capability=capability, dtype="native"), "broken", "crashed"
        )
        assert found == "update it: it ends (a test)"


def entry(failure: Failure) -> document.WorkflowEntry:
    processes = {
        BASELINE: builders.process(outcome=Completed()),
        builders.DUPLICATE: builders.process(outcome=Completed()),
        "broken": builders.process(ready=False, outcome=failure),
    }
    state = builders.run_state(processes, plan=builders.plan("broken"))
    made = document.compose(builders.decided(header=header_with(FAULT), state=state, scored=()))
    (found,) = (each for each in made.workflows if each.arm == "broken")
    return found


def test_the_document_has_it_where_the_outcome_itself_has_no_advice() -> None:
    assert entry(Incorrect(phase="correctness", reason="r")).fix == TOLD
    assert entry(Incorrect(phase="correctness", reason="r", fix="its own")).fix == "its own"


def test_the_table_has_it_below_the_reason() -> None:
    lines = table.left_out(builders.document())
    assert lines[1:3] == ["  broken: crashed, it crashed", "    next: update it"]


def test_the_markdown_has_it_behind_the_reason() -> None:
    assert "crashed: it crashed; next: update it" in markdown.render(builders.document())


def test_how_to_install_a_workflow_is_not_said_twice() -> None:
    assert not any("next" in line for line in table.left_out(builders.document())[3:])


@pytest.mark.parametrize("workflow", FAULTY, ids=lambda workflow: workflow.id)
def test_every_fault_that_ships_can_be_looked_up(workflow: Workflow) -> None:
    root = pathlib.Path(catalogue.rubric_directory()).parent
    for fault in workflow.faults:
        files = re.findall(r"tests/[\w/.-]+", fault.source)
        assert re.search(r"https://\S+", fault.source) or files
        assert all((root / file).is_file() for file in files)
