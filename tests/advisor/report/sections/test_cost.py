"""What adopting an arm costs."""

from __future__ import annotations

import pathlib

import msgspec
import pytest
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry

from advisor.report.sections.cost import EAGER_COST, cost_line

EVIDENCE = pathlib.Path(__file__).parents[3] / "stacks" / "evidence"


@pytest.fixture(scope="module")
def document() -> RunDocument:
    file = EVIDENCE / "cpu-quantised-ffn-1024x4096x2.json"
    return msgspec.json.decode(file.read_bytes(), type=RunDocument)


def entry_of(document: RunDocument, arm: str) -> WorkflowEntry:
    return next(each for each in document.workflows if each.arm == arm)


def test_eager_pytorch_costs_nothing(document: RunDocument) -> None:
    assert cost_line(document, entry_of(document, "pytorch-eager")) == EAGER_COST


def test_an_arm_costs_a_build_and_memory_next_to_the_baseline(document: RunDocument) -> None:
    line = cost_line(document, entry_of(document, "onnxruntime-cpu/host"))
    assert "build " in line
    assert "(eager " in line


def test_a_baseline_that_is_a_server_costs_its_build(document: RunDocument) -> None:
    eager = entry_of(document, "pytorch-eager")
    server = msgspec.structs.replace(
        entry_of(document, "onnxruntime-cpu/host"), speedup=eager.speedup
    )
    alone = msgspec.structs.replace(document, workflows=(server,))
    line = cost_line(alone, server)
    assert "build " in line
    assert "MiB" in line
    assert "(" not in line
