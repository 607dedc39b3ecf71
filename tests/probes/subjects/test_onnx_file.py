"""Models in files: of ONNX with unusual types, and of torch.export with nested inputs."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import workers
from lazy import by_request, onnx, onnx_file, onnx_inputs, torch
from onnx_texts import model_of, write_onnx

from probes import arrays, protocol
from probes.adapter import ModelError
from probes.checking import program_cell
from probes.facts import InputSpec
from probes.shape import Shape

pytestmark = pytest.mark.stack


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "model.onnx"


def write_file(file: pathlib.Path) -> None:
    """Write a model of bytes whose weights are float16."""
    weights = np.linspace(-1, 1, 16 * 4, dtype=np.float16).reshape(16, 4)
    code = "halves = Cast <to = 10> (x) y = MatMul(halves, weights)"
    graph = f"bytes (uint8[batch, 16] x) => (float16[batch, 4] y) {{ {code} }}"
    write_onnx(file, graph, weights=weights)


def opened(file: pathlib.Path, **fields: Any) -> Any:
    subject = {"kind": "onnx", **fields.pop("subject", {}), "name": str(file)}
    return onnx_file.OnnxSubject(workers.subject_request(subject, file.parent, **fields))


def test_bytes_are_fed_and_the_precision_is_that_of_the_weights(file: pathlib.Path) -> None:
    write_file(file)
    subject = opened(file, dtype="own", batch_sizes=[3])
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
    dimensions: tuple[int | str, int | str], has_batch: bool, file: pathlib.Path
) -> None:
    first, second = dimensions
    inputs = f"float[{first}, 4] a, float[{second}, 4] b"
    graph = f"rows ({inputs}) => (float[rows, 4] y) {{ y = Concat <axis = 0> (a, b) }}"
    assert opened(write_onnx(file, graph)).has_batch == has_batch


def test_inputs_are_described_with_the_sizes_and_values_of_all_sets(file: pathlib.Path) -> None:
    inputs = "float[batch, 4] a, int64[batch, n] b, bool[1] c, float d"
    subject = opened(write_onnx(file, f"g ({inputs}) => (float[batch, 4] y) {{ y = Add (a, d) }}"))
    c, d = np.array([True]), np.float32(1)
    sets = [[np.zeros((1, 4), "float32"), np.array([[1, each]]), c, d] for each in (7, 2)]
    arrays.save(program_cell.inputs_file(subject._request, Shape(1)), sets)
    assert subject.describe_inputs() == (
        InputSpec("", (4,), "float32"),
        InputSpec("", (2,), "int64", low=1, high=8),
        InputSpec("", (1,), "bool", batched=False, low=1, high=2),
        InputSpec("", (), "float32", batched=False),
    )


def tables(file: pathlib.Path, **inputs: str) -> pathlib.Path:
    """Write a graph that sums rows of a table for each input, which is called `NAME_ROWS`."""
    code: list[str] = []
    weights: dict[str, Any] = {}
    for name in inputs:
        weights[f"t_{name}"] = np.eye(int(name.rpartition("_")[2]), 4, dtype=np.float32)
        code += [
            f"c_{name} = Cast <to = 6> ({name})",
            f"g_{name} = Gather(t_{name}, c_{name})",
            f"s_{name} = ReduceSum <keepdims = 0> (g_{name})",
        ]
    code.append(f"y = Sum({', '.join(f's_{name}' for name in inputs)})")
    values = ", ".join(f"int64{shape} {name}" for name, shape in inputs.items())
    return write_onnx(file, f"tables ({values}) => (float y) {{ {' '.join(code)} }}", **weights)


def test_integers_are_those_that_their_name_and_their_table_allow(file: pathlib.Path) -> None:
    names = ("ids_5", "token_type_ids_2", "attention_mask_2", "position_ids_32", "lengths_33")
    subject = opened(tables(file, **dict.fromkeys(names, "[batch, seq]")), input_tokens=32)
    subject.settle_inputs(3, 2)
    ids, types, mask, positions, lengths = subject.inputs(3, 0)
    assert [{*np.unique(each)} for each in (ids, types, mask)] == [{0, 1, 2, 3, 4}, {0, 1}, {0, 1}]
    assert mask[:, :16].all()
    assert (positions == np.arange(32)).all()
    assert lengths.min() >= 16


FOLLOWED = """
followed (int64[batch, 2] columns, int64[batch, 3] ids) => (float[batch, rows, 4] y) {
    column = Gather <axis = 1> (columns, first)
    moved = Add(ids, starts)
    a = Gather(seven_rows, column)
    b = Gather(nine_rows, moved)
    y = Concat <axis = 1> (a, b)
}
"""


def test_indices_are_followed_through_columns_and_offsets(file: pathlib.Path) -> None:
    weights: dict[str, Any] = {
        "seven_rows": np.eye(7, 4, dtype=np.float32),
        "nine_rows": np.eye(9, 4, dtype=np.float32),
        "first": np.array([1]),
        "starts": np.array([0, 2, 4]),
    }
    subject = opened(write_onnx(file, FOLLOWED, **weights))
    subject.settle_inputs(40, 2)
    assert [each.max() for each in subject.inputs(40, 0)] == [6, 4]


def test_a_smaller_range_is_tried_where_nothing_tells_it(file: pathlib.Path) -> None:
    # What the table is made of cannot be followed.
    code = "negative = Neg(table) y = Gather(negative, flags)"
    graph = f"tried (int64[batch, 6] flags) => (float[batch, 6, 4] y) {{ {code} }}"
    subject = opened(write_onnx(file, graph, table=np.eye(2, 4, dtype=np.float32)))
    subject.settle_inputs(4, 2)
    assert {*np.unique(subject.inputs(4, 0)[0])} == {0, 1}


def test_given_arrays_are_the_inputs_in_turn(file: pathlib.Path) -> None:
    ids = np.arange(10).reshape(5, 2)
    arrays, code = file.with_name("given.npz"), file.with_name("given.py")
    np.savez(arrays, ids_64=ids, scale_2=np.array(1))
    tables(file, ids_64="[batch, seq]", scale_2="")
    subject = opened(file, subject={"inputs": str(arrays)})
    subject.settle_inputs(2, 4)
    assert not subject.has_length
    assert [subject.inputs(2, n)[0][:, 0].tolist() for n in range(3)] == [[0, 2], [4, 6], [8, 0]]
    np.savez(arrays, ids_64=ids)
    with pytest.raises(ModelError, match="scale_2"):
        opened(file, subject={"inputs": str(arrays)})
    code.write_text("import torch\n\ndef make():\n    return torch.ones(5, 2)\n")
    tables(file, ids_64="[batch, seq]")
    (only,) = opened(file, subject={"inputs": f"{code}:make"}).inputs(2, 0)
    assert (only.shape, only.dtype) == ((2, 2), np.int64)


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
        ([["b", "past_len"], ["b", "total_len + 1"]], [(3, 8), (3, 17)]),
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
    facts = onnx_inputs.InputDemands(onnx.GraphProto())
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
    graph = f"weights (float[] x0) => (float[] y) {{ y = {operator}(x0, w) }}"
    facts = onnx_inputs.InputDemands(model_of(graph, w=np.ones(weight, np.float32)).graph)
    assert onnx_inputs.solve_sizes(shapes_of(shape), facts, 2, 8) == [size]


def test_sizes_that_do_not_fit_are_named_with_the_option_for_inputs(file: pathlib.Path) -> None:
    inputs = "float[batch, seq] a, float[batch, 5] b"
    write_onnx(file, f"sizes ({inputs}) => (float[] y) {{ y = Add(a, b) }}")
    with pytest.raises(ModelError) as refused:
        opened(file, input_tokens=32).settle_inputs(3, 1)
    assert "a 3x32, b 3x5" in str(refused.value)
    assert "--inputs" in refused.value.fix


ZIPMAP = "ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]>"


@pytest.mark.parametrize(
    ("operator", "declared", "kind", "mentions"),
    [
        (ZIPMAP, "seq(map(int64, float))", "seq(map(int64,tensor(float)))", "zipmap"),
        ("SplitToSequence", "seq(float[])", "seq(", "Concat"),
    ],
)
def test_an_output_that_is_no_tensor_is_named_with_a_next_step(
    operator: str, declared: str, kind: str, mentions: str, file: pathlib.Path
) -> None:
    write_onnx(file, f"rows (float[batch, 3] x) => ({declared} y) {{ y = {operator} (x) }}")
    with pytest.raises(ModelError) as refused:
        opened(file)
    assert f"output 'y' of '{file}' is {kind}" in str(refused.value)
    assert mentions in refused.value.fix


UNKNOWN = "unknown (float[batch, 16] x) => (float[batch, 16] y) { y = their.operators.Unknown(x) }"


def write_without_external_data(file: pathlib.Path) -> None:
    write_file(file)
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="data", size_threshold=0)
    (file.parent / "data").unlink()


@pytest.mark.parametrize(
    ("write", "mentions"),
    [
        (lambda file: file.write_bytes(b"no model"), "Protobuf"),
        (lambda file: file.write_bytes(b""), "graph"),
        (lambda file: write_onnx(file, UNKNOWN), "their.operators:Unknown"),
        (write_without_external_data, "data"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_with_a_fix(
    write: Callable[[pathlib.Path], object], mentions: str, file: pathlib.Path
) -> None:
    write(file)
    with pytest.raises(ModelError) as refused:
        opened(file)
    assert mentions in str(refused.value)
    assert "[ONNXRuntimeError]" not in str(refused.value)
    assert "onnx.checker" in refused.value.fix


def request_for(exported_file: pathlib.Path, batch_size: int) -> protocol.Request:
    subject = {"kind": "exported", "name": str(exported_file)}
    return workers.subject_request(
        subject, exported_file.parent, dtype="own", batch_sizes=[batch_size]
    )


def opened_export(exported_file: pathlib.Path, batch_size: int) -> Any:
    return by_request.open_torch_subject(request_for(exported_file, batch_size))


def refusal(exported_file: pathlib.Path, batch_size: int) -> ModelError:
    with pytest.raises(ModelError) as refused:
        opened_export(exported_file, batch_size)
    return refused.value


@pytest.fixture
def exported_file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "model.pt2"


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
def test_nested_inputs_are_taken(exported_file: pathlib.Path) -> None:
    class Nested(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, x: dict[str, Any], options: dict[str, Any]) -> Any:
            return self.layer(x["a"]) + options["b"][0]

    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        Nested(),
        ({"a": torch.randn(4, 8)},),
        {"options": {"b": [torch.randn(4, 4)]}},
        dynamic_shapes={"x": {"a": {0: batch}}, "options": {"b": [{0: batch}]}},
    )
    torch.export.save(program, exported_file)
    subject = opened_export(exported_file, 3)
    with torch.inference_mode():
        inputs = subject.inputs(3, 0)
        name, exact = subject.reference([inputs])
        assert [output.shape for output in subject.run(inputs)] == [(3, 4)]
        assert [output.shape for output in next(exact)] == [(3, 4)]
        assert subject.reference([inputs], quick=True)[0] == "float32"
    assert name == "float64"
    assert all(each.nested for each in subject.describe_inputs())


def test_given_inputs_replace_those_of_a_file(exported_file: pathlib.Path) -> None:
    program = torch.export.export(torch.nn.Linear(8, 4), (torch.zeros(2, 8),))
    torch.export.save(program, exported_file)
    given: Any = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.savez(exported_file.with_name("given.npz"), given)
    request = request_for(exported_file, 2)
    request.subject["inputs"] = str(exported_file.with_name("given.npz"))
    (found,) = by_request.open_torch_subject(request).inputs(2, 0)
    assert (found == given).all()


@pytest.mark.parametrize("batch_size", [5, 2])
def test_inputs_without_a_batch_have_batch_size_one(
    batch_size: int, exported_file: pathlib.Path
) -> None:
    class Edges(torch.nn.Module):
        def forward(self, x: Any, edges: Any) -> Any:
            return x[edges[0]] - x[edges[1]]

    examples = torch.randn(5, 3), torch.randint(0, 5, (2, 7))
    torch.export.save(torch.export.export(Edges(), examples), exported_file)
    assert "--batch-sizes 1" in refusal(exported_file, batch_size).fix
    subject = by_request.open_torch_subject(request_for(exported_file, 1))
    inputs = subject.inputs(1, 0)
    assert [array.shape for array in inputs] == [(5, 3), (2, 7)]
    with torch.inference_mode():
        assert subject.workload(Shape(1), inputs).has_batch is False


def export_pairs(exported_file: pathlib.Path, dimensions: dict[int, Any]) -> None:
    """Export a module of `(4, 8)` inputs, which adds neighbours of a row's values."""
    module = torch.nn.AvgPool1d(2)
    shapes = {"input": dimensions}
    program = torch.export.export(module, (torch.randn(4, 8),), dynamic_shapes=shapes)
    torch.export.save(program, exported_file)


@pytest.mark.parametrize(
    ("bounds", "taken", "refused", "exported"),
    [
        pytest.param({"max": 64}, [1, 64], [65, 100], "1 to 64", id="largest"),
        pytest.param({"min": 3, "max": 64}, [3, 64], [1, 65], "3 to 64", id="both"),
        pytest.param({"min": 3}, [3, 100], [2], "of 3 or more", id="least"),
        # The program does not check this bound.
        pytest.param({"min": 2, "max": 64}, [1, 64], [65], "1 to 64", id="more than one row"),
        pytest.param("AUTO", [1, 100], [], "", id="automatic"),
        pytest.param("DYNAMIC", [1, 100], [], "", id="dynamic"),
    ],
)
def test_batch_sizes_outside_the_exported_range_are_refused_with_it(
    bounds: dict[str, int] | str,
    taken: list[int],
    refused: list[int],
    exported: str,
    exported_file: pathlib.Path,
) -> None:
    made = torch.export.Dim
    batch = getattr(made, bounds) if isinstance(bounds, str) else made("batch", **bounds)
    export_pairs(exported_file, {0: batch})
    for size in taken:
        subject = opened_export(exported_file, size)
        assert [each.shape for each in subject.run(subject.inputs(size, 0))] == [(size, 4)]
    for size in refused:
        assert f"batch sizes {exported}, " in str(refusal(exported_file, size))


def test_a_dynamic_length_is_no_dynamic_batch(exported_file: pathlib.Path) -> None:
    export_pairs(exported_file, {1: 2 * torch.export.Dim("length", min=1, max=32)})
    opened_export(exported_file, 4)
    assert "--batch-sizes 4," in refusal(exported_file, 8).fix


def test_a_batch_of_multiples_has_the_range_of_the_multiples(exported_file: pathlib.Path) -> None:
    export_pairs(exported_file, {0: 2 * torch.export.Dim("half", min=2, max=32)})
    opened_export(exported_file, 64)
    assert " to 64, " in str(refusal(exported_file, 66))


def test_a_program_with_a_class_that_is_not_loaded_is_told_apart(
    exported_file: pathlib.Path,
) -> None:
    code = f"""
import dataclasses, torch
@dataclasses.dataclass
class Pair:
    one: torch.Tensor
torch.export.register_dataclass(Pair, serialized_type_name="nets.Pair")
class Net(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1)
torch.export.save(torch.export.export(Net(), (torch.ones(2),)), {str(exported_file)!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "tuples or dictionaries" in refusal(exported_file, 1).fix


@pytest.mark.parametrize(
    "write",
    [
        lambda exported_file: exported_file.write_bytes(b"no archive"),
        lambda exported_file: torch.save({"weight": torch.ones(2)}, exported_file),
        lambda exported_file: torch.jit.script(torch.nn.Linear(2, 2)).save(str(exported_file)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_file_that_is_no_exported_program_is_refused_with_how_to_export(
    write: Callable[[pathlib.Path], None], exported_file: pathlib.Path
) -> None:
    write(exported_file)
    assert "torch.export.save(" in refusal(exported_file, 1).fix
