"""The tensors in what a module returns, and which of their dimensions are classes."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


def collect(output: Any) -> list[Any]:
    """Return the tensors in `output` as numpy arrays on the host, in order.

    Half precisions become float32, and complex numbers a last dimension of both parts. Sparse and
    quantised tensors become dense ones, and nested tensors their parts. Containers and dataclasses
    are searched; anything else is dropped.
    """
    if isinstance(output, torch.Tensor) and output.is_nested:
        return [array for part in output.unbind() for array in collect(part)]
    if isinstance(output, torch.Tensor):
        host = output.detach().cpu()
        if host.is_quantized:
            host = host.dequantize()
        if host.layout is not torch.strided:
            host = host.to_dense()
        if host.is_complex():
            host = torch.view_as_real(host.resolve_conj())
        return [
            host.float().numpy() if host.dtype in {torch.bfloat16, torch.float16} else host.numpy()
        ]
    if isinstance(output, dict):
        return [array for value in output.values() for array in collect(value)]
    if isinstance(output, (tuple, list)):
        return [array for value in output for array in collect(value)]
    if dataclasses.is_dataclass(output):
        return collect([getattr(output, field.name) for field in dataclasses.fields(output)])
    return []


def other_types(output: Any) -> set[str]:
    """Return the types of the values in `output` that are neither tensors nor None."""
    if isinstance(output, dict):
        return {name for value in output.values() for name in other_types(value)}
    if isinstance(output, (tuple, list)):
        return {name for value in output for name in other_types(value)}
    if dataclasses.is_dataclass(output):
        return other_types([getattr(output, field.name) for field in dataclasses.fields(output)])
    is_known = output is None or isinstance(output, torch.Tensor)
    return set() if is_known else {type(output).__name__}


#: Names of the layers that return a figure for each class, in transformers and torchvision.
HEADS = {"fc", "head", "heads", "classifier", "lm_head", "score", "logits", "cls"}
#: Fields of a model, or of its configuration, that count classes.
COUNTS = ("vocab_size", "num_labels", "num_classes")


def count_classes(module: torch.nn.Module) -> frozenset[int]:
    """Return the numbers of classes that the model may return, above 1."""
    found = {
        layer.out_features
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and HEADS.intersection(name.split("."))
    }
    for owner in (module, getattr(module, "config", None)):
        found |= {getattr(owner, name, None) for name in COUNTS}
    return frozenset(count for count in found if isinstance(count, int) and count > 1)
