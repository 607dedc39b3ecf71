"""The tensors in what a module returns, and which of their dimensions are classes."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import types
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from probes.adapter import ModelError
from probes.subjects.modes import run_eagerly

#: Containers and objects in each other that are searched.
MAX_DEPTH = 16
#: Types of values that are compared besides tensors.
VALUES = (bool, int, float, str, np.generic)
CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)
#: A GPU writes into page-locked memory of this size, from where outputs that are larger are copied.
STAGING_BYTES = 1 << 25


def collect(output: Any, seen: frozenset[int] = frozenset()) -> list[Any]:
    """Return the tensors in `output` as numpy arrays on the host, and its other values, in order.

    Numbers, flags and texts, the latter by their checksums, are numpy's scalars.

    Arrays are copies: an output may share its memory with a state that the next call changes. Lower
    precisions become float32, and complex numbers a last dimension of both parts. Sparse and
    quantised tensors become dense ones, and nested tensors their parts. Containers and the fields
    of objects are searched; anything else is dropped, see `unseen_types`. `seen` has the ids of
    what `output` is in, because some refer to each other.
    """
    if isinstance(output, torch.Tensor) and output.is_nested:
        return [array for part in output.unbind() for array in collect(part)]
    if isinstance(output, torch.masked.MaskedTensor):
        raise ModelError(
            "the model returns a masked tensor, whose masked elements have no value to compare",
            "let forward return output.to_tensor(0), or the data and the mask",
        )
    if isinstance(output, torch.Tensor):
        return [_on_host(output)]
    if isinstance(output, np.ndarray):
        return collect(torch.as_tensor(output)) if output.dtype.kind in "biufc" else []
    if isinstance(output, VALUES):
        value = np.asarray(zlib.crc32(output.encode()) if isinstance(output, str) else output)[()]
        return [value] if np.asarray(value).dtype.kind in "biuf" else []
    if id(output) in seen or len(seen) > MAX_DEPTH:
        return []
    return [array for value in _parts(output) for array in collect(value, seen | {id(output)})]


def _on_host(tensor: torch.Tensor) -> Any:
    is_plain = tensor.layout is torch.strided and not tensor.is_quantized
    if tensor.is_cuda and is_plain and tensor.nbytes > STAGING_BYTES:
        host = copy_in_parts(tensor.detach())
    else:
        host = tensor.detach().to("cpu", copy=True)
    if host.is_quantized:
        host = host.dequantize()
    if host.layout is not torch.strided:
        host = host.to_dense()
    if host.is_complex():
        host = torch.view_as_real(host.resolve_conj())
    if is_lower_precision(host):
        host = host.float()
    return host.resolve_neg().numpy()


def is_lower_precision(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype not in {torch.float32, torch.float64}


def copy_in_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the host, with lower precisions as float32.

    PyTorch's own copy of 0.8 GB from an H200 takes 0.6 s.
    """
    flat = tensor.contiguous().view(-1)
    dtype = torch.float32 if is_lower_precision(flat) else flat.dtype
    host = torch.empty(tensor.shape, dtype=dtype)
    count = STAGING_BYTES // flat.itemsize
    staging = torch.empty(count, dtype=flat.dtype, pin_memory=flat.is_cuda)
    for source, target in zip(flat.split(count), host.view(-1).split(count), strict=True):
        target.copy_(staging[: len(source)].copy_(source))
    return host


def _parts(output: Any) -> list[Any]:
    """Return the values in a container or in an object, except in functions and modules.

    Only the tensors of sets and of objects without declared fields count: texts in a set have no
    fixed order, and numbers of an object may count its calls.
    """
    if isinstance(output, Mapping):
        return list(output.values())
    if isinstance(output, (tuple, list, collections.deque)):
        return list(output)
    if isinstance(output, (type, torch.nn.Module, *CODE)):
        return []
    is_set = isinstance(output, (set, frozenset))
    values = list(output) if is_set else [value for _, value in attributes(output)]
    if dataclasses.is_dataclass(output):
        return values
    return [value for value in values if not isinstance(value, VALUES)]


def holds_tensors(value: Any) -> bool:
    found = {id(value): value}
    to_search = [value]
    for each in to_search:
        if isinstance(each, torch.Tensor):
            return True
        parts = {id(part): part for part in _parts(each) if id(part) not in found}
        found |= parts
        to_search += parts.values()
    return False


def attributes(value: Any) -> list[tuple[str, Any]]:
    slots = copyreg._slotnames(type(value))  # type: ignore[attr-defined]  # noqa: SLF001 - no public name
    return [
        *getattr(value, "__dict__", {}).items(),
        *((name, getattr(value, name, None)) for name in slots),
    ]


def is_cut(output: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether `collect` drops tensors because they lie in too many containers."""
    if isinstance(output, (torch.Tensor, np.ndarray)) or id(output) in seen:
        return False
    if len(seen) > MAX_DEPTH:
        return bool(collect(output))
    return any(is_cut(value, seen | {id(output)}) for value in _parts(output))


def unseen_types(output: Any) -> set[str]:
    """Return the types of the values of an output that `collect` drops, except None."""
    if is_cut(output):
        return {f"values in more than {MAX_DEPTH} containers"}
    return types_in(output, lambda value: value is None or bool(collect(value)))


def types_in(output: Any, is_left_out: Callable[[Any], bool]) -> set[str]:
    if isinstance(output, (Mapping, tuple, list)) or dataclasses.is_dataclass(output):
        return {name for value in _parts(output) for name in types_in(value, is_left_out)}
    return set() if is_left_out(output) else {type(output).__name__}


#: Names of the layers that return a figure for each class, in transformers and torchvision.
HEADS = {"fc", "head", "heads", "classifier", "lm_head", "score", "logits", "cls"}
#: Fields of a model, or of its configuration, that count classes.
COUNTS = ("vocab_size", "num_labels", "num_classes")


def count_classes(module: torch.nn.Module) -> frozenset[int]:
    """Return the numbers of classes that the model may return, above 1."""
    counts = {
        layer.out_features
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) and HEADS.intersection(name.split("."))
    }
    for owner in (module, getattr(module, "config", None)):
        counts |= {getattr(owner, name, None) for name in COUNTS}
    return frozenset(count for count in counts if isinstance(count, int) and count > 1)


# PyTorch's counter refuses grouped queries before 2.12, and does not count the CPU's kernel.
ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def count_flops(call: Callable[[], object]) -> int | None:
    """Count the operations of matrix products, convolutions and attention; None if there are none.

    Causal attention counts in full, as is the custom: kernels skip different parts of it. A model
    that PyTorch's counter cannot run, such as one that differentiates in its forward, has None.
    """
    formulas = {getattr(torch.ops.aten, name): attention_flops for name in ATTENTION}
    fused = torch.backends.mha.get_fastpath_enabled()
    # The counter does not see into the one kernel of a whole encoder layer.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with run_eagerly(), FlopCounterMode(display=False, custom_mapping=formulas) as counter:
            call()
    except torch.OutOfMemoryError:
        raise
    except (AssertionError, RuntimeError, TypeError):
        # The first one is of its module tracker, for a view of a parameter without gradients.
        return None
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return int(counter.get_total_flops()) or None


def attention_flops(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    *_others: object,
    **_options: object,
) -> int:
    """Count by shapes `(batch, heads, length, width)`; keys and values may have fewer heads."""
    batch, heads, queries, width = query
    return int(2 * batch * heads * queries * key[2] * (width + value[3]))
