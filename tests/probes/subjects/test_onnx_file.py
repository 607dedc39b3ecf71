"""ONNX files with types of inputs and weights that are not float32."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import workers

onnx = pytest.importorskip("onnx", reason="the stack is not installed")
pytest.importorskip("onnxruntime", reason="the stack is not installed")
pytest.importorskip("torch", reason="the stack is not installed")

from probes.stacks import onnxruntime_feeding  # noqa: E402 - needs the stack
from probes.subjects.onnx_file import ARRAY_TYPES, OnnxSubject  # noqa: E402

pytestmark = pytest.mark.stack


def write_file(file: pathlib.Path) -> None:
    """Write a model of bytes whose weights are float16."""
    made, helper = onnx.TensorProto, onnx.helper
    weights = np.linspace(-1, 1, 16 * 4, dtype=np.float16).reshape(16, 4)
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["halves"], to=made.FLOAT16),
            helper.make_node("MatMul", ["halves", "weights"], ["y"]),
        ],
        "bytes",
        [helper.make_tensor_value_info("x", made.UINT8, ["batch", 16])],
        [helper.make_tensor_value_info("y", made.FLOAT16, ["batch", 4])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, file)


def test_bytes_are_fed_and_the_precision_is_that_of_the_weights(tmp_path: pathlib.Path) -> None:
    write_file(tmp_path / "bytes.onnx")
    request = workers.make_request(
        pathlib.Path("x.py"),
        tmp_path,
        subject={"kind": "onnx", "name": str(tmp_path / "bytes.onnx")},
        dtype="native",
        batch_sizes=[3],
    )
    subject = OnnxSubject(request)
    (values,) = subject.inputs(3, 0)
    _, outputs = subject.reference([[values]])
    assert (values.dtype, values.shape) == (np.uint8, (3, 16))
    assert next(outputs)[0].shape == (3, 4)
    assert subject.dtype == "float16"
    assert not subject.has_length


def test_pytorch_has_the_types_that_numpy_feeds() -> None:
    assert set(ARRAY_TYPES) <= set(onnxruntime_feeding.ELEMENT_TYPES)
