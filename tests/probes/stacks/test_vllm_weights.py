from __future__ import annotations

from typing import Any

import pytest

from probes.stacks import vllm_weights

torch = pytest.importorskip("torch")


class PackedLinear(torch.nn.Module):  # type: ignore[name-defined]
    """A layer as vLLM leaves it on a CPU after packing its weight for oneDNN."""

    def __init__(self, inputs: int, outputs: int, dtype: Any) -> None:
        super().__init__()
        self.input_size_per_partition = inputs
        self.output_size_per_partition = outputs
        self.weight = torch.nn.Parameter(torch.empty(0, dtype=dtype), requires_grad=False)


class Engine:
    """The part of vLLM's engine that is used."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def apply_model(self, function: Any) -> list[Any]:
        return [function(self._model)]


def model_of(layer: Any) -> Any:
    tables = {"embed": torch.nn.Embedding(8, 4), "lm_head": PackedLinear(4, 8, torch.bfloat16)}
    return torch.nn.ModuleDict({**tables, "layer": layer, "norm": torch.nn.LayerNorm(4)})


@pytest.mark.parametrize(("kind", "share"), [("bfloat16", 0.0), ("int8", 1.0)])
def test_packed_weights_count_by_the_type_of_what_is_left(kind: str, share: float) -> None:
    model = model_of(PackedLinear(16, 4, getattr(torch, kind)))
    assert list(vllm_weights.count_types(model)) == [kind]
    assert vllm_weights.count_types(model)[kind][0] == 64
    found = vllm_weights.engagement(Engine(model), {})
    assert found.share == share
    assert found.facts["weights"] == {kind: 64}


def test_weights_that_are_kept_count_once() -> None:
    model = model_of(torch.nn.Linear(4, 16, bias=False))
    assert vllm_weights.count_types(model) == {"float32": [64, 256]}
    tables = 8 * 4 * 4 + 4 * 8 * 2
    assert vllm_weights.count_bytes(model) == tables + 256 + 2 * 4 * 4
