"""ONNX files with types of inputs and weights that are not float32."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import workers
from lazy import lazy

from probes.adapter import ModelError

onnx = lazy("onnx")
onnx_file = lazy("probes.subjects.onnx_file")
onnx_inputs = lazy("probes.subjects.onnx_inputs")

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


def tables(**inputs: list[int | str | None]) -> Any:
    """Return a graph that sums rows of a table for each input, which is called `NAME_ROWS`."""
    helper, made = onnx.helper, onnx.TensorProto
    nodes, weights = [], []
    for name in inputs:
        rows = int(name.rpartition("_")[2])
        weights.append(onnx.numpy_helper.from_array(np.eye(rows, 4, dtype=np.float32), f"t{name}"))
        nodes += [
            helper.make_node("Cast", [name], [f"c{name}"], to=made.INT32),
            helper.make_node("Gather", [f"t{name}", f"c{name}"], [f"g{name}"]),
            helper.make_node("ReduceSum", [f"g{name}"], [f"s{name}"], keepdims=0),
        ]
    nodes.append(helper.make_node("Sum", [f"s{name}" for name in inputs], ["y"]))
    return helper.make_graph(
        nodes,
        "tables",
        [helper.make_tensor_value_info(n, made.INT64, shape) for n, shape in inputs.items()],
        [helper.make_tensor_value_info("y", made.FLOAT, [])],
        weights,
    )


def opened(graph: Any, place: pathlib.Path, **fields: Any) -> Any:
    domains = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=9)
    onnx.save(model, place / "model.onnx")
    subject = {"kind": "onnx", **fields.pop("subject", {}), "name": str(place / "model.onnx")}
    request = workers.make_request(pathlib.Path("x.py"), place, subject=subject, **fields)
    return onnx_file.OnnxSubject(request)


def test_integers_are_those_that_their_name_and_their_table_allow(tmp_path: pathlib.Path) -> None:
    shape: list[int | str | None] = ["batch", "seq"]
    names = ("ids_5", "token_type_ids_2", "attention_mask_2", "position_ids_32", "lengths_33")
    subject = opened(tables(**dict.fromkeys(names, shape)), tmp_path, input_tokens=32)
    subject.settle_inputs(3, 2)
    ids, types, mask, positions, lengths = subject.inputs(3, 0)
    assert [{*np.unique(each)} for each in (ids, types, mask)] == [{0, 1, 2, 3, 4}, {0, 1}, {0, 1}]
    assert mask[:, :16].all()
    assert (positions == np.arange(32)).all()
    assert lengths.min() >= 16


def test_indices_are_followed_through_columns_and_offsets(tmp_path: pathlib.Path) -> None:
    graph = tables(columns_7=["batch", 2], ids_9=["batch", 3])
    for name, operator, number in (("columns_7", "Gather", 1), ("ids_9", "Add", 4)):
        place = next(n for n, node in enumerate(graph.node) if node.input[0] == name)
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([number]), f"n{name}"))
        axis = {"axis": 1} if operator == "Gather" else {}
        between = onnx.helper.make_node(operator, [name, f"n{name}"], [f"m{name}"], **axis)
        graph.node[place].input[0] = f"m{name}"
        graph.node.insert(place, between)
    subject = opened(graph, tmp_path)
    subject.settle_inputs(40, 2)
    assert [each.max() for each in subject.inputs(40, 0)] == [6, 4]


def test_a_smaller_range_is_tried_where_nothing_tells_it(tmp_path: pathlib.Path) -> None:
    graph = tables(flags_2=["batch", 6])
    # What the table is made of cannot be followed.
    graph.node.insert(0, onnx.helper.make_node("Neg", ["tflags_2"], ["negative"]))
    graph.node[2].input[0] = "negative"
    subject = opened(graph, tmp_path)
    subject.settle_inputs(4, 2)
    assert {*np.unique(subject.inputs(4, 0)[0])} == {0, 1}


def test_given_arrays_are_the_inputs_in_turn(tmp_path: pathlib.Path) -> None:
    ids = np.arange(10).reshape(5, 2)
    np.savez(tmp_path / "given.npz", ids_64=ids, scale_2=np.array(1))
    graph = tables(ids_64=["batch", "seq"], scale_2=[])
    subject = {"kind": "onnx", "name": "", "inputs": str(tmp_path / "given.npz")}
    opened_subject = opened(graph, tmp_path, subject=subject)
    opened_subject.settle_inputs(2, 4)
    assert not opened_subject.has_length
    assert [opened_subject.inputs(2, n)[0][:, 0].tolist() for n in range(3)] == [
        *([0, 2], [4, 6], [8, 0])
    ]
    subject["inputs"] = f"{tmp_path / 'given.py'}:make"
    (tmp_path / "given.py").write_text("import torch\n\ndef make():\n    return torch.ones(5, 2)\n")
    (only,) = opened(tables(ids_64=["batch", "seq"]), tmp_path, subject=subject).inputs(2, 0)
    assert (only.shape, only.dtype) == ((2, 2), np.int64)
    subject["inputs"] = str(tmp_path / "given.npz")
    np.savez(tmp_path / "given.npz", ids_64=ids)
    with pytest.raises(ModelError, match="scale_2"):
        opened(graph, tmp_path, subject=subject)


def shapes_of(*shapes: list[int | str | None]) -> list[Any]:
    """Return inputs that are called as in a decoder."""
    names = ["x0", "attention_mask", "past.key"]
    return [SimpleNamespace(name=names[n], shape=shape) for n, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        ([["batch", "seq"], ["batch", "past + seq"]], [(3, 8), (3, 16)]),
        ([["batch", 4, "past", 2], ["batch", "past + 1"]], [(3, 4, 8, 2), (3, 9)]),
        ([["b", "past_len"], ["b", "total_len"]], [(3, 8), (3, 16)]),
        ([["seq", "batch", 5], ["batch"]], [(8, 3, 5), (3,)]),
        ([["b", "s"], ["b", "m"], ["b", 2, "p", 4]], [(3, 8), (3, 16), (3, 2, 8, 4)]),
        ([[None, None], [None, None], [None, 2, None, 4]], [(3, 8), (3, 16), (3, 2, 8, 4)]),
        ([["batch", 3, "height", "width"]], [(3, 3, 224, 224)]),
        ([[None, None], ["a.b", "2*(t-1)"]], [(3, 8), (3, 14)]),
    ],
)
def test_free_dimensions_have_the_sizes_that_their_names_state(
    shapes: list[list[int | str | None]], sizes: list[tuple[int, ...]]
) -> None:
    facts = onnx_inputs.GraphFacts(onnx.GraphProto())
    assert onnx_inputs.solve_sizes(shapes_of(*shapes), facts, 3, 8) == sizes


@pytest.mark.parametrize(
    ("operator", "weight", "shape", "size"),
    [
        ("Conv", (8, 3, 3, 3), ["b", "channels", 9, 9], (2, 3, 9, 9)),
        ("MatMul", (6, 4), ["b", "s", "features"], (2, 8, 6)),
        ("Gemm", (6, 4), ["b", None], (2, 6)),
    ],
)
def test_free_dimensions_have_the_sizes_that_weights_demand(
    operator: str, weight: tuple[int, ...], shape: list[Any], size: tuple[int, ...]
) -> None:
    helper, made = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node(operator, ["x0", "w"], ["y"])],
        "weights",
        [helper.make_tensor_value_info("x0", made.FLOAT, shape)],
        [helper.make_tensor_value_info("y", made.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.ones(weight, dtype=np.float32), "w")],
    )
    assert onnx_inputs.solve_sizes(shapes_of(shape), onnx_inputs.GraphFacts(graph), 2, 8) == [size]


def test_sizes_that_do_not_fit_are_named_with_the_option_for_inputs(
    tmp_path: pathlib.Path,
) -> None:
    helper, made = onnx.helper, onnx.TensorProto
    values = [
        helper.make_tensor_value_info(name, made.FLOAT, ["batch", size])
        for name, size in (("a", "seq"), ("b", 5))
    ]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "sizes",
        values,
        [helper.make_tensor_value_info("y", made.FLOAT, None)],
    )
    with pytest.raises(ModelError) as refused:
        opened(graph, tmp_path, input_tokens=32).settle_inputs(3, 1)
    assert "a 3x32, b 3x5" in str(refused.value)
    assert "--inputs" in refused.value.fix


@pytest.mark.parametrize(
    ("operator", "kind", "mentions"),
    [("ZipMap", "seq(map(int64,tensor(float)))", "zipmap"), ("SplitToSequence", "seq(", "Concat")],
)
def test_an_output_that_is_no_tensor_is_named_with_a_next_step(
    operator: str, kind: str, mentions: str, tmp_path: pathlib.Path
) -> None:
    helper, made = onnx.helper, onnx.TensorProto
    options: dict[str, Any] = {}
    tensor = helper.make_tensor_type_proto(made.FLOAT, None)
    inner = tensor
    if operator == "ZipMap":
        options = {"domain": "ai.onnx.ml", "classlabels_int64s": [0, 1, 2]}
        inner = helper.make_map_type_proto(
            made.INT64, helper.make_tensor_type_proto(made.FLOAT, [])
        )
    output = helper.make_value_info("y", helper.make_sequence_type_proto(inner))
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **options)],
        "sequences",
        [helper.make_tensor_value_info("x", made.FLOAT, ["batch", 3])],
        [output],
    )
    with pytest.raises(ModelError) as refused:
        opened(graph, tmp_path)
    assert f"output 'y' of '{tmp_path / 'model.onnx'}' is {kind}" in str(refused.value)
    assert mentions in refused.value.fix


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
