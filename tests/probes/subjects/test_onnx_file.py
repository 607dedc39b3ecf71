"""ONNX files with types of inputs and weights that are not float32."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import workers
from lazy import lazy

from probes.adapter import ModelError

onnx = lazy("onnx")
onnxruntime_feeding = lazy("probes.stacks.onnxruntime_feeding")
onnx_file = lazy("probes.subjects.onnx_file")

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
    subject = onnx_file.OnnxSubject(request)
    (values,) = subject.inputs(3, 0)
    _, outputs = subject.reference([[values]])
    assert (values.dtype, values.shape) == (np.uint8, (3, 16))
    assert next(outputs)[0].shape == (3, 4)
    assert subject.dtype == "float16"
    assert not subject.has_length


@pytest.mark.parametrize(
    ("dimensions", "has_batch"),
    [(("batch", "batch"), True), ((3, 3), True), ((3, "batch"), True), ((3, 5), False)],
)
def test_a_file_has_a_batch_unless_all_first_dimensions_are_fixed_and_differ(
    dimensions: tuple[int | str, int | str], has_batch: bool, tmp_path: pathlib.Path
) -> None:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    values = [
        helper.make_tensor_value_info(name, kind, [size, 4])
        for name, size in zip("ab", dimensions, strict=True)
    ]
    graph = helper.make_graph(
        [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)],
        "rows",
        values,
        [helper.make_tensor_value_info("y", kind, ["rows", 4])],
    )
    file = tmp_path / "rows.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), file)
    request = workers.make_request(
        pathlib.Path("x.py"), tmp_path, subject={"kind": "onnx", "name": str(file)}
    )
    assert onnx_file.OnnxSubject(request).has_batch == has_batch


def test_pytorch_has_the_types_that_numpy_feeds() -> None:
    assert set(onnx_file.ARRAY_TYPES) <= set(onnxruntime_feeding.ELEMENT_TYPES)


def write_unknown_operator(file: pathlib.Path) -> None:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Unknown", ["x"], ["y"], domain="their.operators")],
        "unknown",
        [value("x", onnx.TensorProto.FLOAT, ["batch", 16])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 16])],
    )
    domains = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("their.operators", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=domains, ir_version=9), file)


def write_without_external_data(file: pathlib.Path) -> None:
    write_file(file)
    model = onnx.load(file)
    onnx.save(model, file, save_as_external_data=True, location="data", size_threshold=0)
    (file.parent / "data").unlink()


@pytest.mark.parametrize(
    ("write", "mentions"),
    [
        (lambda file: file.write_bytes(b"no model"), "Protobuf"),
        (lambda file: file.write_bytes(b""), "graph"),
        (write_unknown_operator, "their.operators:Unknown"),
        (write_without_external_data, "data"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_with_a_fix(
    write: Callable[[pathlib.Path], None], mentions: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "model.onnx"
    write(file)
    request = workers.make_request(
        pathlib.Path("x.py"), tmp_path, subject={"kind": "onnx", "name": str(file)}
    )
    with pytest.raises(ModelError) as refused:
        onnx_file.OnnxSubject(request)
    assert mentions in str(refused.value)
    assert "[ONNXRuntimeError]" not in str(refused.value)
    assert "onnx.checker" in refused.value.fix
