"""The share of quantised weights is read from their stored types, not from what was asked for."""

from __future__ import annotations

import types
from typing import Any

import pytest
from stub_stacks import load_with_stubs


class Linear:
    def __init__(self, weight: Any) -> None:
        self.weight = weight


class Stored:
    """A tensor of `elements` numbers of a type."""

    def __init__(self, kind: str, elements: int, size: int) -> None:
        self.dtype, self.elements, self.nbytes = f"torch.{kind}", elements, elements * size

    def numel(self) -> int:
        return self.elements


class Int8Tensor(Stored):
    """A weight of 8-bit numbers with a scale, which looks like a float tensor from outside."""

    def __init__(self, elements: int) -> None:
        super().__init__("float32", elements, 4)
        self.qdata, self.scale = Stored("int8", elements, 1), Stored("float32", 2, 4)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["qdata", "scale"], None


@pytest.fixture
def weights() -> Any:
    """Return the module, with stubs for torch and torchao."""
    ours = ("probes.stacks", "probes.stacks.pytorch", "probes.subjects.by_request")
    stubs = ("torch", "torchao", "torchao.quantization", *ours)
    loaded: Any = load_with_stubs("workflows/torchao.py", stubs)
    loaded.torch = types.SimpleNamespace(nn=types.SimpleNamespace(Linear=Linear))
    return loaded


def module(*stored: Any) -> Any:
    """Return a module with one linear layer for each weight, and a table."""
    table = Stored("float32", 100, 4)
    return types.SimpleNamespace(
        modules=lambda: [object(), *map(Linear, stored)], parameters=lambda: [table, *stored]
    )


FLOAT = Stored("float32", 64, 4)


@pytest.mark.parametrize(
    ("stored", "compiled", "share"),
    [
        ((Int8Tensor(64), Int8Tensor(64)), 1.0, 1.0),
        ((Int8Tensor(64), FLOAT), 1.0, 0.5),
        ((FLOAT,), 1.0, 0.0),
        ((), 1.0, 0.0),
        ((Int8Tensor(64),), 0.0, 0.0),
        ((Int8Tensor(64),), 0.75, 0.75),
    ],
    ids=["all", "half", "no-op", "no linear layer", "not compiled", "compiled in part"],
)
def test_the_share_is_that_of_stored_types_that_run_compiled(
    weights: Any, stored: tuple[Any, ...], compiled: float, share: float
) -> None:
    assert weights.weights_engagement(module(*stored), compiled, "it ran").share == share


def test_a_shared_weight_counts_once_and_bytes_are_those_of_the_parts(weights: Any) -> None:
    tied = Int8Tensor(64)
    found = weights.weights_engagement(module(tied, tied, FLOAT), 1.0, "it ran")
    assert found.facts["weights"] == {"Int8Tensor int8": 64, "float32": 64}
    assert weights.weights_engagement(module(tied), 1.0, "it ran").weight_bytes == 400 + 64 + 8


def test_what_torchao_refuses_is_not_supported(weights: Any) -> None:
    request = types.SimpleNamespace(options={"weights": "int8"}, device="cpu")
    weights.torchao.quantization.quantize_.side_effect = AssertionError("only for GPUs")
    with pytest.raises(weights.adapter.UnsupportedError, match="only for GPUs"):
        weights.quantise(module(FLOAT), request)


openvino_model: Any = load_with_stubs(
    "stacks/openvino_model.py", ("openvino", "probes.stacks", "probes.stacks.pytorch")
)


class Node:
    """A node of a compiled model with its runtime information."""

    def __init__(self, kind: str, precision: str, shape: tuple[int, ...], *inputs: Node) -> None:
        values = {"layerType": kind, "runtimePrecision": precision, "outputPrecisions": precision}
        self.information = {
            name: types.SimpleNamespace(value=value) for name, value in values.items()
        }
        self.shape, self.inputs = shape, inputs

    def get_rt_info(self) -> dict[str, Any]:
        return self.information

    def get_input_size(self) -> int:
        return len(self.inputs)

    def input_value(self, index: int) -> Any:
        return types.SimpleNamespace(get_node=lambda: self.inputs[index])

    def get_output_shape(self, _index: int) -> tuple[int, ...]:
        return self.shape


def compiled(*weights: str) -> Any:
    """Return a compiled model with one product for each type of weights, and an attention."""
    rows = Node("Input", "f32", (4, 8))
    products = [
        Node("FullyConnected", kind, (4, 8), rows, Node("Const", kind, (8, 8))) for kind in weights
    ]
    attention = Node("MatMul", "f32", (4, 4), rows, rows)
    model = types.SimpleNamespace(get_ops=lambda: [rows, *products, attention])
    return types.SimpleNamespace(get_runtime_model=lambda: model)


@pytest.mark.parametrize(
    ("weights", "share"),
    [
        (("i8", "i8"), 1.0),
        (("i4", "u8"), 1.0),
        (("i8", "f32"), 0.5),
        (("f32", "bf16"), 0.0),
        ((), 0.0),
    ],
)
def test_only_weights_that_stay_compressed_count(weights: tuple[str, ...], share: float) -> None:
    engaged = openvino_model.weights_engagement(compiled(*weights), 1000)
    assert engaged.share == share
    assert engaged.weight_bytes == 1000
    assert sum(engaged.facts["weights"].values()) == 64 * len(weights)
