"""ONNX Runtime's quantised files: when weights have 7 bits, and where the files are written."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import workers
from lazy import lazy

onnx = lazy("onnx")
onnxruntime_quantisation = lazy("probes.stacks.onnxruntime_quantisation")

pytestmark = pytest.mark.stack


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


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_file_is_quantised_in_the_directory_of_its_own_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    made, helper = onnx.TensorProto, onnx.helper
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", made.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", made.FLOAT, ["batch", 64])],
        [onnx.numpy_helper.from_array(values, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    user = tmp_path / "user"
    user.mkdir()
    onnx.save(model, user / "net.onnx")
    (user / "net.onnx.data").write_bytes(b"weights of the user")
    monkeypatch.chdir(user)
    request = workers.make_request(pathlib.Path("x.py"), tmp_path)
    file = onnxruntime_quantisation.quantise(user / "net.onnx", weights, request)
    assert file.exists()
    assert (user / "net.onnx.data").read_bytes() == b"weights of the user"
    assert pathlib.Path.cwd() == user
