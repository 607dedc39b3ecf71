"""Read in which types vLLM stores the weights of its linear layers."""

from __future__ import annotations

import collections
from typing import Any

from probes.protocol import Engagement

#: Types of quantised weights; packed ones are integers.
QUANTISED = {"int8", "uint8", "int32", "float8_e4m3fn", "float8_e4m3fnuz"}
#: Parts of the names of tables that quantisation leaves as they are.
TABLES = ("embed", "lm_head")
MATRIX = 2


def count_types(model: Any) -> dict[str, list[int]]:
    """Return, by type, the elements and bytes of the matrices of a model, without its tables."""
    found: dict[str, list[int]] = {}

    def add(name: str, tensor: Any, elements: int) -> None:
        if not any(part in name for part in TABLES):
            sums = found.setdefault(str(tensor.dtype).removeprefix("torch."), [0, 0])
            sums[0] += elements
            sums[1] += elements * tensor.itemsize

    for name, tensor in model.named_parameters():
        if tensor.ndim >= MATRIX:
            add(name, tensor, tensor.numel())
    for name, layer in model.named_modules():
        if elements := packed_elements(layer):
            add(name, layer.weight, elements)
    return found


def packed_elements(layer: Any) -> int:
    """Return the elements of a linear layer's weight of which no tensor is left; 0 for others.

    On a CPU vLLM packs weights for oneDNN and keeps an empty tensor of their type instead.
    """
    weight = getattr(layer, "weight", None)
    if weight is None or weight.numel() or not hasattr(layer, "output_size_per_partition"):
        return 0
    elements: int = layer.output_size_per_partition * layer.input_size_per_partition
    return elements


def count_bytes(model: Any) -> int:
    """Return the bytes of all parameters, with the packed ones."""
    found = sum(int(tensor.nbytes) for _, tensor in model.named_parameters())
    for layer in model.modules():
        if elements := packed_elements(layer):
            found += elements * layer.weight.itemsize
    return found


def engagement(engine: Any, facts: dict[str, Any]) -> Engagement:
    """Return the share of the bytes of the layers' matrices that are quantised.

    `facts` are those of the engine's compilation. vLLM accepts formats that it then does not use:
    `int8_per_channel_weight_only` quantises experts only and leaves linear layers as they are.
    """
    types = engine.apply_model(count_types)[0]
    stored = collections.Counter({kind: bytes_ for kind, (_, bytes_) in types.items()})
    total = stored.total()
    share = sum(stored[kind] for kind in QUANTISED) / total if total else 0.0
    kinds = ", ".join(f"{kind} {types[kind][0]:,}" for kind, _ in stored.most_common())
    return Engagement(
        share,
        f"{share:.0%} of the bytes of the layers' weights are quantised; elements by type: {kinds}",
        {**facts, "weights": {kind: elements for kind, (elements, _) in types.items()}},
        engine.apply_model(count_bytes)[0],
    )
