"""An arm whose exporter refuses the model says what the model does, with a next step."""

from __future__ import annotations

from typing import Any

import pytest
from lazy import by_request, onnx_export, torch
from reference_cases import Factories

from probes.runtime import failures

pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]  # those of the exporter

MODELS = """
import torch
from torch import library
from torch.nn.utils import rnn


class Model(torch.nn.Module):
    def __init__(self, call, *inputs):
        super().__init__()
        self.call, self.linear = call, torch.nn.Linear(4, 4)
        self.lstm = torch.nn.LSTM(4, 4, batch_first=True)

    def forward(self, *inputs):
        return self.call(self, *inputs)


def gradient(model, x):
    with torch.enable_grad():
        x = x.clone().requires_grad_(True)
        return torch.autograd.grad(model.linear(x).sum(), x)[0]


def backward(model, x):
    with torch.enable_grad():
        x = x.clone().requires_grad_(True)
        model.linear(x).sum().backward()
    return x.grad


def packed(model, x, lengths):
    found = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(model.lstm(found)[0], batch_first=True)[0]


def as_sequence(model, x):
    return model.lstm(rnn.pack_sequence(list(x)))[0].data


def integers(model, x):
    return x * 2, x.shape[1], 3


def flag(model, x):
    return {"values": x * 2, "done": True}


def spectrum(model, x):
    return torch.fft.irfft(torch.zeros_like(torch.fft.rfft(x)) + model.linear(x)[..., :3])


def branch(model, x):
    return x if (x > 9).nonzero().numel() else model.linear(x)


def weights(model, x):
    return x if model.linear.weight.max() > 9 else model.linear(x)


def equal(model, x):
    return x if torch.equal(x, x * 2) else model.linear(x)


def arrays(model, x):
    return x if x.numpy().mean() > 9 else model.linear(x)


def drawn(model, x):
    return torch.distributions.Normal(model.linear(x), x.exp()).rsample()


def decomposed(model, x):
    return torch.linalg.svd(x)[1]


@library.custom_op("nets::swish", mutates_args=())
def swish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


def custom(model, x):
    return swish(model.linear(x))


def build(name):
    lengths = (torch.tensor([5, 3]),) if name == "packed" else ()
    if name == "traced":
        return torch.jit.trace(torch.nn.Linear(4, 4), torch.randn(2, 5, 4)), torch.randn(2, 5, 4)
    return Model(globals()[name]), (torch.randn(2, 5, 4), *lengths)
"""


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("model", "mentions", "step"),
    [
        ("gradient", "by a gradient", "operators of PyTorch"),
        ("backward", "by a gradient", "operators of PyTorch"),
        ("packed", "packs sequences", "padded"),
        ("as_sequence", "packs sequences", "padded"),
        ("integers", "type int", "tensors only"),
        ("flag", "type bool", "tensors only"),
        ("spectrum", "zeros_like of complex numbers", "both parts"),
        ("branch", "nets.py:", "torch.where"),
        ("weights", "nets.py:", "torch.where"),
        ("equal", "nets.py:", "torch.where"),
        ("arrays", "outside of PyTorch", "operators of PyTorch"),
        ("traced", "modules of torch.jit", "before torch.jit.script"),
        ("custom", "nets::swish", "register_fake"),
        ("decomposed", "aten._linalg_svd", "other operators"),
        ("drawn", "torch.distributions", "set_default_validate_args"),
    ],
)
def test_the_reason_says_what_the_model_does(model: str, mentions: str, step: str) -> None:
    request = Factories(f"{MODELS}\n\ndef made():\n    return build({model!r})\n").request("made")
    subject = by_request.open_torch_subject(request)
    inputs: list[Any] = subject.inputs(2, 0)
    with pytest.raises(Exception, match="") as raised:  # noqa: PT011 - of any class
        # The free batch of a traced module is refused at another place.
        onnx_export.model_file(subject, inputs, request, "every" if model == "traced" else None)
    found = failures.classify(raised.value, "build")
    assert found.status == "unsupported"
    assert mentions in found.reason
    assert step in (found.fix or "")


@pytest.mark.usefixtures("here")
def test_torch_compile_names_an_operator_that_it_cannot_trace() -> None:
    subject = Factories(f"{MODELS}\n\ndef made():\n    return build('custom')\n").open("made")
    with pytest.raises(RuntimeError) as raised:
        torch.compile(subject.module)(*subject.inputs(2, 0))
    assert "nets::swish" in failures.classify(raised.value, "build").reason
