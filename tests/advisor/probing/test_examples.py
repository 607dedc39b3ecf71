"""The batch size of the inputs that the user gives with a model."""

from __future__ import annotations

import os
import pathlib
import sys

import builders
import numpy as np
import pytest

from advisor.ask import rubric_files
from advisor.domain.model import FactoryModel, Model, OnnxModel
from advisor.probing.examples import rows_of_examples

MODEL = """\
import torch

def build():
    print("of the model")
    return torch.nn.Linear(8, 2), {inputs}
"""


def rows_of(model: Model, *, sandbox: bool = False) -> int | None:
    question = builders.question(model=model, sandbox=sandbox, python=sys.executable)
    return rows_of_examples(question, rubric_files.probes_directory(), os.environ)


@pytest.mark.parametrize(
    ("inputs", "sandbox", "rows"),
    [
        ("(torch.ones(4, 8),)", False, 4),
        ("{'one': torch.ones(3, 8), 'two': [torch.ones(3)], 'three': 5.0}", True, 3),
        ("(torch.ones(4, 8), torch.ones(2, 8))", False, None),
        ("1 / 0", False, None),
    ],
)
def test_the_batch_size_is_the_first_dimension_that_all_inputs_share(
    inputs: str, sandbox: bool, rows: int | None, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "net.py"
    file.write_text(MODEL.format(inputs=inputs))
    assert rows_of(FactoryModel(name=f"{file}:build"), sandbox=sandbox) == rows


def test_inputs_in_a_file_come_before_those_of_the_model(tmp_path: pathlib.Path) -> None:
    given = tmp_path / "inputs.npz"
    np.savez(given, x=np.ones((6, 8)))
    assert rows_of(OnnxModel(name="/gone.onnx", inputs=str(given))) == 6


def test_a_file_without_inputs_has_no_batch_size() -> None:
    assert rows_of(OnnxModel(name="/gone.onnx")) is None
