"""The share of compressed weights is read from the compiled model, not from what was asked for."""

from __future__ import annotations

import types
from typing import Any

import pytest
from stub_stacks import load_with_stubs

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
