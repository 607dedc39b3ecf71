"""The length of a question is stated for models whose inputs have it."""

from __future__ import annotations

import builders
import msgspec
import pytest
from report_runs import run_document

from advisor.domain.model import ExportedModel, FactoryModel, Model, OnnxModel, TransformersModel
from advisor.report.sections.setup_facts import setup_facts, takes_tokens
from advisor.report.text_report import measured_line

LIBRARY = TransformersModel(name="org/model", weights="hub")


@pytest.mark.parametrize(
    ("model", "unit", "expected"),
    [
        (LIBRARY, "tokens/s", True),
        (LIBRARY, "samples/s", False),
        (OnnxModel(name="net.onnx"), "samples/s", True),
        (FactoryModel(name="net.py:build"), "samples/s", False),
        (ExportedModel(name="net.pt2"), "samples/s", False),
    ],
)
def test_images_and_example_inputs_have_no_tokens(model: Model, unit: str, expected: bool) -> None:
    document = run_document()
    question = builders.question(model=model)
    entries = [
        msgspec.structs.replace(
            entry,
            cells=tuple(
                msgspec.structs.replace(
                    cell, throughput=msgspec.structs.replace(cell.throughput, unit=unit)
                )
                for cell in entry.cells
            ),
        )
        for entry in document.workflows
    ]
    document = msgspec.structs.replace(document, question=question, workflows=tuple(entries))
    assert takes_tokens(document) == expected
    assert ("input tokens" in measured_line(document)[0]) == expected
    assert ("input tokens" in dict(setup_facts(document))["model"]) == expected
