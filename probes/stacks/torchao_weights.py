"""Quantise linear layers with torchao, and read in which types their weights are stored."""

from __future__ import annotations

import collections
from typing import Any

import torch
import torchao.quantization

from probes.adapter import Engagement, Request, UnsupportedError

#: Weights that share a scale in the 4-bit format.
GROUP = 64
#: How the kernel of PyTorch for GPUs expects 4-bit weights.
PACKING = "tile_packed_to_4d"
#: How torchao refuses a device, a precision or a shape; it has no exception of its own for that.
#: They are caught around `quantize_` alone, and the outcome has their text, so a defect shows.
REFUSALS = (AssertionError, NotImplementedError, ValueError)


def expression(request: Request) -> str:
    """Return the expression of the configuration, with names of `torchao.quantization`."""
    if request.options["weights"] == "fp8":
        return "Float8DynamicActivationFloat8WeightConfig(granularity=PerRow())"
    if request.options["weights"] == "int4":
        return f'Int4WeightOnlyConfig(group_size={GROUP}, int4_packing_format="{PACKING}")'
    if request.options.get("activations"):
        return "Int8DynamicActivationInt8WeightConfig()"
    return "Int8WeightOnlyConfig()"


def imported_names(request: Request) -> list[str]:
    names = [expression(request).partition("(")[0], "quantize_"]
    if request.options["weights"] == "fp8":
        names.insert(1, "PerRow")
    return names


def quantise(module: Any, request: Request) -> None:
    """Quantise the linear layers in place; raise `UnsupportedError` if torchao refuses.

    A module that is quantised already, for another batch size, stays as it is.
    """
    if any(map(is_quantised, linear_weights(module))):
        return
    known = {name: getattr(torchao.quantization, name) for name in imported_names(request)}
    try:
        known["quantize_"](module, eval(expression(request), known))  # noqa: S307 - written above
    except REFUSALS as problem:
        message = f"torchao: {problem}"
        raise UnsupportedError(message) from problem


def linear_weights(module: Any) -> list[Any]:
    """Return the weights of the linear layers, each once."""
    layers = (layer for layer in module.modules() if isinstance(layer, torch.nn.Linear))
    return list({id(layer.weight): layer.weight for layer in layers}.values())


def is_quantised(weight: Any) -> bool:
    """Return whether the tensor consists of several: of numbers in a small type and of scales."""
    return hasattr(weight, "__tensor_flatten__")


def stored_tensors(weight: Any) -> list[Any]:
    """Return the tensors that a weight consists of, the numbers first."""
    if not is_quantised(weight):
        return [weight]
    names, _ = weight.__tensor_flatten__()
    return [getattr(weight, name) for name in names]


def engagement(module: Any, compiled_share: float, compiled: str) -> Engagement:
    """Return the share of the elements of linear layers' weights that are quantised.

    It is at most `compiled_share`, the share of the work that runs compiled, which `compiled`
    describes.
    """
    elements: collections.Counter[str] = collections.Counter()
    quantised = 0
    for weight in linear_weights(module):
        kind = str(stored_tensors(weight)[0].dtype).removeprefix("torch.")
        name = f"{type(weight).__name__} {kind}" if is_quantised(weight) else kind
        elements[name] += weight.numel()
        quantised += weight.numel() if is_quantised(weight) else 0
    share = quantised / elements.total() if elements else 0.0
    kinds = ", ".join(f"{name} {count:,}" for name, count in elements.most_common())
    return Engagement(
        min(share, compiled_share),
        f"{share * 100:.0f} % of the weights of linear layers are quantised, by elements: "
        f"{kinds or 'there are none'}; {compiled}",
        {"weights": dict(elements), "compiled_share": compiled_share},
        weight_bytes=sum(
            stored.nbytes for weight in module.parameters() for stored in stored_tensors(weight)
        ),
    )
