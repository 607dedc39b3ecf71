from __future__ import annotations

from typing import Any

import pytest
from lazy import lazy

from probes.workflows import vllm

torch = lazy("torch")

pytestmark = pytest.mark.stack


def packed_linear(inputs: int, outputs: int, dtype: Any) -> Any:
    """Make a layer as vLLM leaves it on a CPU after packing its weight for oneDNN."""
    layer = torch.nn.Module()
    layer.input_size_per_partition = inputs
    layer.output_size_per_partition = outputs
    layer.weight = torch.nn.Parameter(torch.empty(0, dtype=dtype), requires_grad=False)
    return layer


class Engine:
    """The part of vLLM's engine that is used."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def apply_model(self, function: Any) -> list[Any]:
        return [function(self._model)]


def model_of(layer: Any) -> Any:
    tables = {"embed": torch.nn.Embedding(8, 4), "lm_head": packed_linear(4, 8, torch.bfloat16)}
    return torch.nn.ModuleDict({**tables, "layer": layer, "norm": torch.nn.LayerNorm(4)})


@pytest.mark.parametrize(("kind", "share"), [("bfloat16", 0.0), ("int8", 1.0)])
def test_packed_weights_count_by_the_type_of_what_is_left(kind: str, share: float) -> None:
    model = model_of(packed_linear(16, 4, getattr(torch, kind)))
    assert list(vllm.count_types(model)) == [kind]
    assert vllm.count_types(model)[kind][0] == 64
    found = vllm.quantised_engagement(Engine(model), {})
    assert found.share == share
    assert found.facts["weights"] == {kind: 64}


def test_weights_that_are_kept_count_once() -> None:
    model = model_of(torch.nn.Linear(4, 16, bias=False))
    assert vllm.count_types(model) == {"float32": [64, 256]}
    tables = 8 * 4 * 4 + 4 * 8 * 2
    assert vllm.count_bytes(model) == tables + 256 + 2 * 4 * 4
