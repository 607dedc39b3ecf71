"""ONNX: exports, missing kernels and quantised files."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import workers
from lazy import lazy
from onnx_texts import write_onnx
from reference_cases import Factories

from probes.adapter import UnsupportedError
from probes.runtime.failures import classify

torch = lazy("torch")
onnx_export = lazy("probes.stacks.onnx_export")
onnxruntime_session = lazy("probes.stacks.onnxruntime_session")
by_request = lazy("probes.subjects.by_request")


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


@pytest.mark.stack
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (COMPLEX, "complex"),
        (NAMED, "type int, str"),
        (NAMED.replace(', "name": "levels"', ""), "type int,"),
    ],
)
def test_inputs_and_outputs_that_onnx_does_not_have_are_unsupported(
    code: str, reason: str, tmp_path: pathlib.Path
) -> None:
    request = Factories(code, batch_sizes=[1]).request("build", tmp_path)
    subject = by_request.open_torch_subject(request)
    with pytest.raises(UnsupportedError, match=reason):
        onnx_export.model_file(subject, subject.inputs(1, 0), request)
    with pytest.raises(UnsupportedError, match=reason):
        onnx_export.model_file(subject, subject.inputs(1, 0), request, "every")


TRACEABLE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if float(self.layer.weight.abs().max()) < 1e6 else y

def build():
    return Net(), torch.ones(1, 4)
"""


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_the_older_exporter_is_tried_and_named(is_dynamic: bool, tmp_path: pathlib.Path) -> None:
    options = {"feeding": "host", "dynamic": is_dynamic}
    request = Factories(TRACEABLE, batch_sizes=[1]).request("build", tmp_path, options=options)
    assert "dynamo=True" in onnxruntime_session.integration(request, "CPUExecutionProvider")
    subject = by_request.open_torch_subject(request)
    with torch.inference_mode():
        program = onnxruntime_session.build(subject, subject.inputs(1, 0), request)
        for rows in (1, 5) if is_dynamic else (1,):
            inputs = subject.inputs(rows, 0)
            (found,) = program.collect(program(program.feed(inputs)))
            assert np.allclose(found, subject.run(inputs)[0], atol=1e-6)
    engaged = onnxruntime_session.engagement(program, program.feed(subject.inputs(1, 0)))
    assert "dynamo=False" in engaged.proof
    lines = onnxruntime_session.integration(request, "CPUExecutionProvider")
    assert "dynamo=False" in lines
    assert ("dynamic_axes" in lines) == is_dynamic


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize(
    "test",
    [
        "y.sum() > 9",
        "x[0, 0].item() > 9",
        "int(x.abs().max()) > 9",
        "x.numpy().mean() > 9",
        "x.tolist()[0][0] > 9",
        "torch.equal(x, y)",
        "x[x > 9].shape[0] > 3",
        "torch.zeros_like(x).copy_(y).sum() > 9",
    ],
)
def test_a_model_that_reads_values_of_its_inputs_is_not_traced(
    test: str, is_dynamic: bool, tmp_path: pathlib.Path
) -> None:
    code = TRACEABLE.replace("float(self.layer.weight.abs().max()) < 1e6", test)
    options = {"feeding": "host", "dynamic": is_dynamic}
    request = Factories(code, batch_sizes=[1]).request("build", tmp_path, options=options)
    subject = by_request.open_torch_subject(request)
    free = "every" if is_dynamic else None
    with torch.no_grad(), pytest.raises((UnsupportedError, *onnx_export.EXPORT_ERRORS)):
        onnx_export.model_file(subject, subject.inputs(1, 0), request, free)
    assert not list(tmp_path.rglob(onnx_export.TRACED))


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
def test_a_scripted_module_keeps_both_branches(tmp_path: pathlib.Path) -> None:
    code = TRACEABLE.replace("float(self.layer.weight.abs().max()) < 1e6", "bool(x.sum() > 0)")
    code = code.replace("return Net()", "return torch.jit.script(Net())")
    request = Factories(code, batch_sizes=[1]).request(
        "build", tmp_path, options={"feeding": "host"}
    )
    subject = by_request.open_torch_subject(request)
    assert "torch.jit.script" in subject.adjusted
    with torch.no_grad():
        program = onnxruntime_session.build(subject, subject.inputs(1, 0), request)
        for sign in (1, -1):
            inputs: list[Any] = [sign * np.ones((1, 4), "float32")]
            (found,) = program.collect(program(program.feed(inputs)))
            assert np.allclose(found, subject.run(inputs)[0], atol=1e-6)


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
def test_code_that_reads_sizes_is_traced(tmp_path: pathlib.Path) -> None:
    sizes = "if float(self.layer.weight.abs().max()) < 1e6 and x.shape[1] + len(x) > 1"
    code = TRACEABLE.replace("if float(self.layer.weight.abs().max()) < 1e6", sizes)
    request = Factories(code, batch_sizes=[1]).request("build", tmp_path)
    subject = by_request.open_torch_subject(request)
    with torch.no_grad():
        file = onnx_export.model_file(subject, subject.inputs(1, 0), request)
    assert onnx_export.is_traced(file)


MASKED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x, mask):
        y = self.encoder(x, src_key_padding_mask=~mask)
        return y * 2 if float(self.encoder.layers[0].linear1.weight.abs().max()) < 1e6 else y

def build():
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, 3:] = False
    return Net().eval(), (torch.randn(2, 5, 8), mask)
"""


@pytest.mark.stack
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_free", [False, True])
def test_the_lines_of_a_traced_export_run_as_they_are_printed(
    is_free: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Factories(MASKED, batch_sizes=[2]).request("build", tmp_path)
    subject = by_request.open_torch_subject(request)
    inputs = subject.inputs(2, 0)
    with torch.no_grad():
        free = "batch" if is_free else None
        assert onnx_export.is_traced(onnx_export.model_file(subject, inputs, request, free))
    lines, _ = onnx_export.integration(request, is_free=is_free)
    monkeypatch.chdir(tmp_path)
    try:
        exec(lines, {"torch": torch, "model": subject.module, "inputs": subject.tensors(inputs)})
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert (tmp_path / "model.onnx").exists()


@pytest.mark.stack
# PyTorch's exporter uses classes that it has deprecated.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_layer_in_a_precision_without_kernels_has_a_next_step(tmp_path: pathlib.Path) -> None:
    class PartlyBfloat16(torch.nn.Module):  # type: ignore[name-defined]
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


onnx = lazy("onnx")
onnxruntime_quantisation = lazy("probes.stacks.onnxruntime_quantisation")


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
    file = onnxruntime_quantisation.quantise(user / "net.onnx", weights, request)
    assert file.exists()
    assert (user / "net.onnx.data").read_bytes() == b"weights of the user"
    assert pathlib.Path.cwd() == user
