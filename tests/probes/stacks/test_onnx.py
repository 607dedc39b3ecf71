from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import workers
from lazy import (
    by_request,
    lazy,
    onnx_export,
    onnx_file,
    onnxruntime_quantisation,
    onnxruntime_session,
    torch,
)
from onnx_texts import write_onnx
from reference_cases import Factories

from probes.adapter import UnsupportedError
from probes.runtime.failures import classify

pytorch = lazy("probes.stacks.pytorch")
COMPLEX = """
import torch

def build():
    return torch.nn.Identity(), torch.ones(1, 4, dtype=torch.cfloat)
"""
NAMED = """
import torch

class Named(torch.nn.Module):
    def forward(self, x):
        return {"levels": [x, x * 2], "size": x.shape[1], "name": "levels"}

def build():
    return Named(), torch.ones(1, 4)
"""


@pytest.mark.usefixtures("here")
@pytest.mark.stack
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (COMPLEX, "complex"),
        (NAMED, "type int, str"),
        (NAMED.replace(', "name": "levels"', ""), "type int,"),
    ],
)
def test_inputs_and_outputs_that_onnx_does_not_have_are_unsupported(code: str, reason: str) -> None:
    request = Factories(code, batch_sizes=[1]).request("build")
    subject = by_request.open_torch_subject(request)
    with pytest.raises(UnsupportedError, match=reason):
        onnx_export.model_file(subject, subject.inputs(1, 0), request)
    with pytest.raises(UnsupportedError, match=reason):
        onnx_export.model_file(subject, subject.inputs(1, 0), request, "every")


@pytest.mark.stack
def test_a_timed_call_runs_the_printed_lines_of_each_call(tmp_path: pathlib.Path) -> None:
    file = write_onnx(tmp_path / "same.onnx", "same (float[2] x) => (float[2] y) {y = Identity(x)}")
    subject = {"kind": "onnx", "name": str(file)}
    opened = onnx_file.OnnxSubject(workers.subject_request(subject, tmp_path))
    lines = (
        "raise ValueError\n# Each call, timed:\ndoubled = 2 * inputs[0]\noutput = doubled + one\n"
    )
    program = pytorch.TorchProgram(opened, pytorch.compile_call(lines, one=1))
    (tensor,) = fed = program.feed([np.ones(2)])
    assert isinstance(tensor, torch.Tensor), "a call turns the tensors of a user to arrays"
    assert program.collect(program(fed))[0].tolist() == [3, 3]


@pytest.mark.stack
# PyTorch's exporter uses classes that it has deprecated.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_layer_in_a_precision_without_kernels_has_a_next_step(tmp_path: pathlib.Path) -> None:
    class PartlyBfloat16(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8).bfloat16()

        def forward(self, x: Any) -> Any:
            return self.layer(x.bfloat16()).float()

    file = tmp_path / "model.onnx"
    examples = (torch.zeros(2, 8),)
    program = torch.onnx.export(PartlyBfloat16().eval(), examples, dynamo=True, verbose=False)
    assert program is not None
    program.save(file)
    request = workers.make_request(tmp_path / "x.py", tmp_path)
    with pytest.raises(UnsupportedError) as raised:
        onnxruntime_session.open_session(file, [(onnxruntime_session.CPU, {})], request)
    found = classify(raised.value, "build")
    assert found.status == "unsupported"
    assert "bfloat16" in found.reason
    assert "--dtype float32" in (found.fix or "")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("processors", "saturates"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx avx2 fma\n", True),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("flags\t\t: fpu avx2 avx_vnni\n", False),
        ("flags\t\t: fpu sse2\n", False),
        ("Features\t: fp asimd asimddp\n", False),
    ],
    ids=["AVX2", "AVX-512 with VNNI", "AVX2 with VNNI", "SSE2", "Arm"],
)
def test_sums_overflow_with_avx2_and_without_vnni(
    tmp_path: pathlib.Path, processors: str, saturates: bool
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(processors)
    assert onnxruntime_quantisation.sums_saturate(file) is saturates


@pytest.mark.stack
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_file_is_quantised_in_the_directory_of_its_own_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    graph = "product (float[batch, 64] x) => (float[batch, 64] y) { y = MatMul(x, weights) }"
    user = tmp_path / "user"
    user.mkdir()
    write_onnx(user / "net.onnx", graph, weights=values)
    (user / "net.onnx.data").write_bytes(b"weights of the user")
    monkeypatch.chdir(user)
    request = workers.make_request(pathlib.Path("x.py"), tmp_path)
    assert onnxruntime_quantisation.quantise(user / "net.onnx", weights, request).exists()
    assert (user / "net.onnx.data").read_bytes() == b"weights of the user"
    assert pathlib.Path.cwd() == user
