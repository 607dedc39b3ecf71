"""A batch that does not fit in memory is computed in parts if its rows are independent."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from lazy import lazy
from reference_cases import Factories

torch = lazy("torch")
row_parts = lazy("probes.subjects.row_parts")

pytestmark = pytest.mark.stack

ROWS = 7
INPUTS = [np.arange(ROWS * 2, dtype="float32").reshape(ROWS, 2), np.array([10.0, 20.0])]
BATCHED = [True, False]


class SmallMemory:
    """Adds its second input to each row of the first; only so many rows fit."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.rows: list[int] = []

    def __call__(self, inputs: list[Any]) -> list[Any]:
        self.rows.append(len(inputs[0]))
        if len(inputs[0]) > self.most_rows:
            raise torch.OutOfMemoryError("no memory for so many rows")
        return [inputs[0] + inputs[1]]


@pytest.mark.parametrize(
    ("most_rows", "calls"), [(ROWS, [ROWS]), (4, [7, 4, 3]), (3, [7, 4, 2, 2, 2, 1])]
)
def test_parts_are_halved_until_they_fit(most_rows: int, calls: list[int]) -> None:
    run = SmallMemory(most_rows)
    can_divide = pytest.fail if most_rows == ROWS else lambda: True
    (output,) = row_parts.run_within_memory(run, INPUTS, BATCHED, can_divide)
    assert run.rows == calls
    assert (output == INPUTS[0] + INPUTS[1]).all()


@pytest.mark.parametrize(("most_rows", "can_divide"), [(4, False), (0, True)])
def test_memory_that_parts_do_not_save_is_an_error(most_rows: int, can_divide: bool) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        row_parts.run_within_memory(SmallMemory(most_rows), INPUTS, BATCHED, lambda: can_divide)


@pytest.mark.parametrize(
    ("run", "independent"),
    [
        (lambda arrays: [arrays[0] * 2], True),
        (lambda arrays: [arrays[0] * (1 + 1e-7 * len(arrays[0]))], True),
        (lambda arrays: [arrays[0] - arrays[0].mean(axis=0)], False),
        (lambda arrays: [arrays[0] @ arrays[0].T], False),
    ],
    ids=["scaled", "rounded", "centred", "similarities"],
)
def test_independent_rows_have_the_same_outputs_in_halves(run: Any, independent: bool) -> None:
    epsilon = float(np.finfo("float32").eps)
    assert row_parts.has_uncoupled_rows(run, INPUTS[:1], [True], epsilon) is independent


MODELS = """
import torch


class Model(torch.nn.Module):
    def __init__(self, centred):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.centred = centred

    def forward(self, x):
        if x.dtype == torch.float64 and len(x) > 2:
            raise torch.OutOfMemoryError("a batch in float64 does not fit")
        return self.layer(x - x.mean(0) if self.centred else x)


def independent():
    return Model(False), torch.randn(1, 16)


def coupled():
    return Model(True), torch.randn(1, 16)
"""


@pytest.mark.parametrize(("factory", "name"), [("independent", "float64"), ("coupled", "float32")])
def test_a_reference_that_does_not_fit_is_divided_or_less_precise(
    factory: str, name: str, tmp_path: pathlib.Path
) -> None:
    factories = Factories(MODELS, dtype="float32", batch_sizes=[ROWS], input_sets=1)
    reference = factories.make_reference(factory, tmp_path)
    assert reference.name == name
    assert reference.outputs[0][0].shape == (ROWS, 4)
    assert reference.outputs[0][0].eager.rmse < 1e-6
