"""What is read from the files of a model: a fixed batch size, the number of weights."""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask import model_files
from advisor.ask.model_files import fixed_batch_size
from advisor.ask.resolve import resolve
from advisor.ask.run_options import RunOptions

ROWS = 3


def save_exported(
    file: pathlib.Path, *first: int | str | None, others: tuple[int, ...] = ()
) -> pathlib.Path:
    """Write the part of an exported program that has its inputs; None is a scalar input."""
    names = {f"x{number}": size for number, size in enumerate(first)}
    sizes = {
        name: []
        if size is None
        else [{"as_int": size} if isinstance(size, int) else {"as_expr": {"expr_str": size}}]
        for name, size in names.items()
    }
    specs: list[dict[str, Any]] = [
        {"parameter": {"arg": {"name": "weight"}, "parameter_name": "weight"}},
        *({"user_input": {"arg": {"as_tensor": {"name": name}}}} for name in names),
        *({"user_input": {"arg": {"as_int": other}}} for other in others),
    ]
    values = {name: {"dtype": 7, "sizes": each} for name, each in sizes.items()}
    values["weight"] = {"dtype": 7, "sizes": [{"as_int": 4}]}
    program = {
        "graph_module": {"graph": {"tensor_values": values}, "signature": {"input_specs": specs}}
    }
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/models/model.json", json.dumps(program))
    return file


def save_onnx(file: pathlib.Path, *first: int | str | None) -> pathlib.Path:
    """Write an ONNX file with such inputs and a weight that is declared as an input too."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    declared = [
        helper.make_tensor_value_info(f"x{number}", kind, [] if size is None else [size, 4])
        for number, size in enumerate(first)
    ]
    declared.append(helper.make_tensor_value_info("w", kind, [7]))
    weight = helper.make_tensor("w", kind, [7], [1.0] * 7)
    node = helper.make_node("Identity", ["x0"], ["y"])
    result = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "graph", declared, [result], [weight])
    onnx.save(helper.make_model(graph), str(file))
    return file


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ((ROWS,), ROWS),
        ((ROWS, ROWS, None), ROWS),
        ((1,), 1),
        (("rows",), None),
        ((ROWS, "rows"), None),
        ((ROWS, 4), None),
        ((None,), None),
        ((1 << 20,), None),
    ],
)
def test_a_file_with_one_first_dimension_is_fixed_to_it(
    tmp_path: pathlib.Path, suffix: str, first: tuple[int | str | None, ...], expected: int | None
) -> None:
    save = save_onnx if suffix == ".onnx" else save_exported
    assert fixed_batch_size(str(save(tmp_path / f"model{suffix}", *first))) == expected


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_the_fixed_size_is_measured_unless_the_user_names_sizes(
    tmp_path: pathlib.Path, suffix: str
) -> None:
    save = save_onnx if suffix == ".onnx" else save_exported
    model = str(save(tmp_path / f"model{suffix}", ROWS))
    known, here = builders.shipped_catalogue(), builders.machine()
    assert resolve(RunOptions(model=model), here, known).batch_sizes == (ROWS,)
    assert resolve(RunOptions(model=model, batch_sizes="1,2"), here, known).batch_sizes == (1, 2)


def test_an_input_that_is_no_tensor_has_no_dimension(tmp_path: pathlib.Path) -> None:
    file = save_exported(tmp_path / "model.pt2", ROWS, others=(2,))
    assert fixed_batch_size(str(file)) == ROWS


@pytest.mark.stack
def test_a_program_that_torch_has_saved_is_read(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "model.pt2"
    module, inputs = torch.nn.Linear(4, 4), (torch.zeros(ROWS, 4),)
    torch.export.save(torch.export.export(module, inputs), file)
    assert fixed_batch_size(str(file)) == ROWS
    free = ({0: torch.export.Dim.AUTO},)
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=free), file)
    assert fixed_batch_size(str(file)) is None
    assert fixed_batch_size(str(file), of_examples=True) == ROWS


@given(content=st.binary(max_size=60), suffix=st.sampled_from([".onnx", ".pt2"]))
def test_any_file_has_a_size_or_none(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"any{suffix}"
    file.write_bytes(content)
    size = fixed_batch_size(str(file))
    assert size is None or size > 0


def test_a_graph_that_unpacks_to_too_many_bytes_is_left_to_the_worker(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_exported(tmp_path / "model.pt2", ROWS)
    monkeypatch.setattr("advisor.ask.model_files.LARGEST_GRAPH_BYTES", 10)
    assert fixed_batch_size(str(file)) is None


def test_a_missing_file_has_none() -> None:
    assert fixed_batch_size("gone.onnx") is None
    assert fixed_batch_size("gone.pt2") is None


MODELS = builders.shipped_catalogue().models


def write_tensors(file: pathlib.Path, **shapes: list[int]) -> None:
    tensors = {
        name: {"dtype": "F16", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "gpt2", "n_embd": 8},
        {"model_type": "llama", "hidden_size": "8"},
        {"model_type": []},
    ],
)
def test_other_configurations_have_no_count(config: dict[str, Any]) -> None:
    assert model_files.count_in_config(config, MODELS.gated_decoders) is None


def test_only_the_named_model_types_are_counted() -> None:
    config = {**MODELS.configurations["demo/llama"].config, "model_type": "another"}
    assert model_files.count_in_config(config, {"llama"}) is None
    assert model_files.count_in_config(config, {"another"}) is not None


def test_weights_are_counted_in_the_headers_of_all_files(tmp_path: pathlib.Path) -> None:
    write_tensors(tmp_path / "model-00001-of-00002.safetensors", one=[3, 5], two=[7])
    write_tensors(tmp_path / "model-00002-of-00002.safetensors", three=[2, 2, 2], scalar=[])
    assert model_files.count_in_files(tmp_path) == 15 + 7 + 8 + 1


@pytest.mark.parametrize(
    "content", [b"", b"weights", b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"[]"]
)
def test_a_broken_file_gives_no_count(content: bytes, tmp_path: pathlib.Path) -> None:
    assert model_files.count_in_files(tmp_path) is None, "there is no file yet"
    (tmp_path / "model.safetensors").write_bytes(content)
    assert model_files.count_in_files(tmp_path) is None
