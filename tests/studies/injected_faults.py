"""Faults for `accuracy_panel.py`: what compilers and their users get wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


def layers(module: torch.nn.Module, kind: type[torch.nn.Module] | tuple[Any, ...]) -> list[Any]:
    return [layer for layer in module.modules() if isinstance(layer, kind)]


def set_epsilon(module: torch.nn.Module) -> bool:
    """Set the epsilon of every normalisation to 1e-3."""
    found = False
    for layer in module.modules():
        for name in ("eps", "variance_epsilon"):
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, 1e-3)
                found = True
    return found


def drop_head(module: torch.nn.Module) -> bool:
    """Zero the inputs of one attention head's output projection."""
    names = ("out_proj", "o_proj", "wo", "output.dense", "c_proj", "to_out")
    found = [
        layer
        for name, layer in module.named_modules()
        if name.endswith(names) and isinstance(layer, torch.nn.Linear)
    ]
    for layer in found[-1:]:
        layer.weight.data[:, : max(layer.in_features // 4, 1)] = 0
    return bool(found)


def transpose_weight(module: torch.nn.Module) -> bool:
    found = [
        layer
        for layer in layers(module, torch.nn.Linear)
        if layer.in_features == layer.out_features and layer.in_features >= 16
    ]
    for layer in found[-1:]:
        layer.weight.data = layer.weight.data.T.contiguous()
    return bool(found)


def quantise_weights(module: torch.nn.Module) -> bool:
    """Round every matrix to 8 bits with one scale."""
    found = layers(module, (torch.nn.Linear, torch.nn.Conv2d))
    for layer in found:
        weight = layer.weight.data.float()
        scale = weight.abs().max() / 127
        layer.weight.data = ((weight / scale).round() * scale).to(layer.weight.dtype)
    return bool(found)


def shift_positions(module: torch.nn.Module) -> bool:
    found = [
        layer
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Embedding)
        and any(word in name for word in ("position", "wpe"))
    ]
    for layer in found:
        layer.weight.data = layer.weight.data.roll(1, 0)
    return bool(found)


def drop_bias(module: torch.nn.Module) -> bool:
    found = [
        layer
        for layer in layers(module, (torch.nn.Linear, torch.nn.Conv2d))
        if layer.bias is not None
    ]
    for layer in found[-1:]:
        layer.bias.data = torch.zeros_like(layer.bias.data)
    return bool(found)


def keep_dropout(module: torch.nn.Module) -> bool:
    found = layers(module, torch.nn.Dropout)
    for layer in found:
        layer.p = 0.1
        layer.train()
    return bool(found)


def tanh_gelu(values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(values, approximate="tanh")


def use_tanh(module: torch.nn.Module) -> bool:
    """Compute GELU by the hyperbolic tangent, and the other way round."""
    found = False
    for layer in module.modules():
        if isinstance(layer, torch.nn.GELU):
            layer.approximate = "tanh" if layer.approximate == "none" else "none"
            found = True
        if getattr(layer, "act", None) is torch.nn.functional.gelu:
            layer.act = tanh_gelu
            found = True
    return found


MODULE_FAULTS: dict[str, Callable[[torch.nn.Module], bool]] = {
    "epsilon of the norms 1e-3": set_epsilon,
    "one head dropped": drop_head,
    "transposed weight": transpose_weight,
    "INT8 weights": quantise_weights,
    "position off by one": shift_positions,
    "dropped bias": drop_bias,
    "dropout left on": keep_dropout,
    "tanh for erf GELU": use_tanh,
}


@contextlib.contextmanager
def half_accumulation() -> Iterator[None]:
    """Add up the products of linear layers in float16, in 16 parts."""
    original = torch.nn.functional.linear

    def linear(values: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
        total: Any = 0
        for ones, others in zip(values.split(4, -1), weight.split(4, -1), strict=True):
            total = (total + original(ones, others)).half()
        return (total + bias if bias is not None else total).to(values.dtype)

    torch.nn.functional.linear = linear
    try:
        yield
    finally:
        torch.nn.functional.linear = original


def change_last_row(outputs: list[Any]) -> list[Any]:
    changed = [array.copy() for array in outputs]
    for array in changed:
        if array.ndim and array.dtype.kind == "f":
            array.reshape(-1, array.shape[-1])[-1] *= 1.05
    return changed
