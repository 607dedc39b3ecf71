"""What modules of users do in a call: unusual outputs, and inputs that are changed in place."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import workers

torch = pytest.importorskip(
    "torch", reason="the stack is not installed: pip install 'p3-advisor[stack]'"
)

from probes.adapter import ModelError  # noqa: E402 - the next lines need torch
from probes.checking import array_reference, dispatch  # noqa: E402
from probes.subjects.torch_subject import open_torch_subject  # noqa: E402
from probes.workflows import pytorch_eager  # noqa: E402

pytestmark = pytest.mark.stack

MODELS = """
import dataclasses

import torch


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple | None = None


class Model(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.layer, self.call = torch.nn.Linear(16, 8), call

    def forward(self, x):
        return self.call(self.layer, x)


def build(call):
    return Model(call), torch.randn(2, 16)


def outputs_in_a_dataclass():
    return build(lambda layer, x: Output(layer(x), (x, None)))


def no_tensor():
    return build(lambda layer, x: {"loss": None, "steps": 3})


def scaled_in_place():
    return build(lambda layer, x: layer(x.mul_(2)))


def clamped_in_place():
    return build(lambda layer, x: layer(x.relu_()))


def selected():
    return build(lambda layer, x: layer(x)[layer(x) > 0])
"""


def make_reference(function: str, directory: pathlib.Path) -> array_reference.Reference:
    """Return the reference that a worker writes for the factory of this name."""
    (directory / "nets.py").write_text(MODELS)
    request = workers.make_request(
        pathlib.Path("x.py"),
        directory,
        subject={"kind": "factory", "name": f"{directory / 'nets.py'}:{function}"},
        dtype="float32",
        batch_sizes=[2],
    )
    subject = open_torch_subject(request)
    inputs = [subject.inputs(2, number) for number in range(2)]
    before = [array.copy() for (array,) in inputs]
    file = directory / "reference.npz"
    with torch.inference_mode():
        program = pytorch_eager.build(subject, inputs[0], request)
        dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
        assert all(np.array_equal(old, new) for old, (new,) in zip(before, inputs, strict=True))
        return array_reference.load_reference(file)


def test_the_fields_of_a_dataclass_are_outputs(tmp_path: pathlib.Path) -> None:
    reference = make_reference("outputs_in_a_dataclass", tmp_path)
    assert [output.shape for output in reference.outputs[0]] == [(2, 8), (2, 16)]


def test_outputs_may_have_a_shape_that_depends_on_the_values(tmp_path: pathlib.Path) -> None:
    reference = make_reference("selected", tmp_path)
    assert len({output.shape for (output,) in reference.outputs}) == 2
    assert not reference.is_random


def test_a_module_may_change_its_input_if_calls_return_the_same(tmp_path: pathlib.Path) -> None:
    reference = make_reference("clamped_in_place", tmp_path)
    assert not reference.is_random


@pytest.mark.parametrize(
    ("function", "reason"), [("no_tensor", "tensor"), ("scaled_in_place", "in place")]
)
def test_a_module_that_cannot_be_judged_is_refused(
    function: str, reason: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ModelError, match=reason):
        make_reference(function, tmp_path)
