"""The tensors in what a module returns, and which of their dimensions are classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

#: Objects in objects that are searched; some refer to each other.
MAX_DEPTH = 8


def collect(output: Any, depth: int = 0) -> list[Any]:
    """Return the tensors in `output` as numpy arrays on the host, in order.

    They are copies: an output may share its memory with a state that the next call changes. Half
    precisions become float32, and complex numbers a last dimension of both parts. Sparse and
    quantised tensors become dense ones, and nested tensors their parts. Containers and the fields
    of objects are searched; anything else is dropped, see `unseen_types`.
    """
    if isinstance(output, torch.Tensor) and output.is_nested:
        return [array for part in output.unbind() for array in collect(part)]
    if isinstance(output, torch.Tensor):
        host = output.detach().to("cpu", copy=True)
        if host.is_quantized:
            host = host.dequantize()
        if host.layout is not torch.strided:
            host = host.to_dense()
        if host.is_complex():
            host = torch.view_as_real(host.resolve_conj())
        return [
            host.float().numpy() if host.dtype in {torch.bfloat16, torch.float16} else host.numpy()
        ]
    if isinstance(output, np.ndarray):
        return [output.copy()] if output.dtype.kind in "biuf" else []
    if depth > MAX_DEPTH:
        return []
    return [array for value in _parts(output) for array in collect(value, depth + 1)]


def _parts(output: Any) -> list[Any]:
    """Return the values in a container or in an object, but for those of functions and modules."""
    if isinstance(output, Mapping):
        return list(output.values())
    if isinstance(output, (tuple, list, set, frozenset)):
        return list(output)
    is_object = not isinstance(output, (type, torch.nn.Module)) and not callable(output)
    return list(getattr(output, "__dict__", {}).values()) if is_object else []


def unseen_types(output: Any) -> set[str]:
    """Return the types of the values of an output that `collect` drops, but for None and flags."""
    if output is None or isinstance(output, bool):
        return set()
    if isinstance(output, (Mapping, tuple, list)) or dataclasses.is_dataclass(output):
        return {name for value in _parts(output) for name in unseen_types(value)}
    return set() if collect(output) else {type(output).__name__}


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
