"""References in a higher precision of modules that compute with the limits of their precision."""

from __future__ import annotations

import pathlib

import pytest
import workers
from lazy import lazy

from probes.checking import array_reference, correctness, dispatch
from probes.wire.shape import Shape

torch = lazy("torch")
higher_precision = lazy("probes.subjects.higher_precision")
torch_subject = lazy("probes.subjects.torch_subject")
pytorch_eager = lazy("probes.workflows.pytorch_eager")

pytestmark = pytest.mark.stack

MODELS = """
import torch


class Model(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call, self.layer = call, torch.nn.Linear(16, 16)

    def forward(self, x, mask):
        return self.call(self.layer(x), mask)


def build(call):
    mask = torch.ones(4, 16, dtype=torch.bool)
    mask[:, 11:] = False
    mask[1, 0] = False
    return Model(call), (torch.randn(4, 16), mask)


def masked_logits():
    return build(lambda x, mask: x.masked_fill(~mask, torch.finfo(x.dtype).min))


def softmax_of_masked_rows():
    # In float32, as transformers computes attention.
    return build(lambda x, mask: torch.softmax(
        x.masked_fill(mask | ~mask, torch.finfo(x.dtype).min), -1, dtype=torch.float32
    ).to(x.dtype) + x)


def mask_of_the_default_type():
    return build(lambda x, mask: x + torch.full((16, 16), torch.finfo(x.dtype).min).triu(1)[3])
"""


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        ("masked_logits", "float32"),
        ("masked_logits", "float16"),
        ("masked_logits", "bfloat16"),
        ("softmax_of_masked_rows", "float32"),
        ("softmax_of_masked_rows", "bfloat16"),
        ("mask_of_the_default_type", "float32"),
    ],
)
def test_a_mask_of_the_lowest_number_has_a_float64_reference(
    function: str, dtype: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "nets.py").write_text(MODELS)
    request = workers.make_request(
        pathlib.Path("x.py"),
        tmp_path,
        subject={"kind": "factory", "name": f"{tmp_path / 'nets.py'}:{function}"},
        dtype=dtype,
        batch_sizes=[4],
        shared_directory=str(tmp_path),
    )
    subject = torch_subject.open_torch_subject(request)
    file = dispatch.reference_file(request, Shape(4))
    with torch.no_grad():
        inputs = [subject.inputs(4, number) for number in range(2)]
        program = pytorch_eager.build(subject, inputs[0], request)
        dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
        reference = array_reference.load_reference(file)
        produced = [subject.run(arguments) for arguments in inputs]
    assert reference.name == "float64"
    (output,) = reference.outputs[0]
    # The masks have no part in the size of the output.
    assert 0.1 < output.scale < 2
    assert 0 < output.eager.rmse < 1e-2
    verdict, _ = correctness.check_outputs(reference, produced, workers.rules(dtype), Shape(4))
    assert verdict.accuracy_class == "exact"
    swapped, _ = correctness.check_outputs(
        reference, produced[::-1], workers.rules(dtype), Shape(4)
    )
    assert swapped.accuracy_class == "incorrect"


def test_the_limits_of_a_precision_are_its_own_while_the_reference_computes() -> None:
    limits = torch.finfo(torch.float16).eps
    with higher_precision.Precision(torch.float64, torch.float16).context():
        assert torch.finfo(torch.float64).eps == limits
        assert torch.finfo(torch.complex128).eps == limits
        assert torch.finfo(torch.float32).eps == 2**-23
        assert torch.finfo().eps == 2**-23
    assert torch.finfo(torch.float64).eps == 2**-52


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64"])
def test_an_rms_norm_without_an_epsilon_has_that_of_its_own_precision(name: str) -> None:
    own = getattr(torch, name)
    small = torch.full((2, 8), 2.0**-12)
    norm = torch.nn.RMSNorm(8, eps=torch.finfo(own).eps if own == torch.float64 else 2**-23)
    expected = norm.double()(small.double())
    called = higher_precision.Precision(torch.float64, own).call(torch.nn.RMSNorm(8))
    assert torch.equal(called(small), expected)
    given = higher_precision.Precision(torch.float64, own).call(torch.nn.RMSNorm(8, eps=0.5))
    assert given(small)[0, 0].item() == pytest.approx(2.0**-11.5, rel=1e-6)
