"""What the ONNX exporter does not take is refused with the reason."""

from __future__ import annotations

import pathlib

import pytest
import workers
from lazy import lazy

from probes.adapter import UnsupportedError

torch = lazy("torch")
onnx_export = lazy("probes.stacks.onnx_export")
torch_subject = lazy("probes.subjects.torch_subject")

pytestmark = pytest.mark.stack

COMPLEX = """
import torch

def build():
    return torch.nn.Identity(), torch.ones(1, 4, dtype=torch.cfloat)
"""
NAMED = """
import torch

class Named(torch.nn.Module):
    def forward(self, x):
        return {"levels": [x, x * 2], "size": 2, "name": "levels"}

def build():
    return Named(), torch.ones(1, 4)
"""


@pytest.mark.parametrize(("code", "reason"), [(COMPLEX, "complex"), (NAMED, "type str")])
def test_inputs_and_outputs_that_onnx_does_not_have_are_unsupported(
    code: str, reason: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "nets.py").write_text(code)
    request = workers.make_request(
        pathlib.Path("x.py"),
        tmp_path,
        subject={"kind": "factory", "name": f"{tmp_path / 'nets.py'}:build"},
        dtype="native",
        batch_sizes=[1],
    )
    subject = torch_subject.open_torch_subject(request)
    with pytest.raises(UnsupportedError, match=reason):
        onnx_export.for_shapes(subject, subject.inputs(1, 0), request)
