"""torchao: quantise the linear layers, then compile as Inductor's workflows do."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any

import torch
import torchao.quantization

from probes import adapter
from probes.stacks import dynamo, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request

versions = functools.partial(pytorch.versions, "torchao", "triton")
settings = pytorch.apply_settings
open_subject = by_request.open_subject

#: Weights that share a scale in the 4-bit format.
GROUP = 64
#: How the kernel of PyTorch for GPUs expects 4-bit weights.
PACKING = "tile_packed_to_4d"
#: How torchao refuses a device, a precision or a shape; it has no exception of its own for that.
#: They are caught around `quantize_` alone, and the outcome has their text, so a defect shows.
REFUSALS = (AssertionError, NotImplementedError, ValueError)


def build(subject: Any, inputs: list[Any], request: adapter.Request) -> adapter.Program:
    """Quantise the weights once for all batch sizes, and compile.

    A language model generates with a cache of fixed size, whose decode step transformers compiles.
    `subject` is a `CausalLm` for text, else a `TorchSubject`.
    """
    if request.task == adapter.GENERATE:
        from probes.subjects import transformers_generate

        quantise(subject.model, request)
        program = transformers_generate.with_fixed_cache(subject.model, request)
        program(program.feed(inputs))
        return program
    quantise(subject.module, request)
    return dynamo.compile_module(subject, inputs)


def engagement(program: Any, device_inputs: Any) -> adapter.Engagement:
    outside, regions = pytorch.count_operators_outside(
        lambda: program(device_inputs), (pytorch.COMPILED_REGION, pytorch.GRAPH_REGION)
    )
    ran = f"{dynamo.count(regions, 'compiled region')} ran"
    if isinstance(program, TorchProgram):
        share = 1.0 if regions else 0.0
        compiled = f"{ran} in a call, {dynamo.count(outside, 'operator')} outside them"
        return weights_engagement(program.subject.module, share, compiled)
    passes = program.request.output_tokens
    compiled = (
        f"{ran} in {passes} {'pass' if passes == 1 else 'passes'}; the prompt's pass stays eager"
    )
    return weights_engagement(program.model, min(regions / passes, 1.0), compiled)


def expression(request: adapter.Request) -> str:
    """Return the expression of the configuration, with names of `torchao.quantization`."""
    if request.options["weights"] == "fp8":
        return "Float8DynamicActivationFloat8WeightConfig(granularity=PerRow())"
    if request.options["weights"] == "int4":
        return f'Int4WeightOnlyConfig(group_size={GROUP}, int4_packing_format="{PACKING}")'
    if request.options.get("activations"):
        return "Int8DynamicActivationInt8WeightConfig()"
    return "Int8WeightOnlyConfig()"


def imported_names(request: adapter.Request) -> list[str]:
    names = [expression(request).partition("(")[0], "quantize_"]
    if request.options["weights"] == "fp8":
        names.insert(1, "PerRow")
    return names


def quantise(module: Any, request: adapter.Request) -> None:
    """Raise `UnsupportedError` if torchao refuses. A quantised module stays as it is."""
    if any(map(is_quantised, linear_weights(module))):
        return
    known = {name: getattr(torchao.quantization, name) for name in imported_names(request)}
    try:
        known["quantize_"](module, eval(expression(request), known))  # noqa: S307 - written above
    except REFUSALS as problem:
        raise adapter.UnsupportedError(f"torchao: {problem}") from problem


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


def weights_engagement(module: Any, compiled_share: float, compiled: str) -> adapter.Engagement:
    """Return at most `compiled_share`, the share of the work that `compiled` describes."""
    elements: collections.Counter[str] = collections.Counter()
    quantised = 0
    for weight in linear_weights(module):
        kind = str(stored_tensors(weight)[0].dtype).removeprefix("torch.")
        name = f"{type(weight).__name__} {kind}" if is_quantised(weight) else kind
        elements[name] += weight.numel()
        quantised += weight.numel() if is_quantised(weight) else 0
    share = quantised / elements.total() if elements else 0.0
    weight_bytes = sum(
        stored.nbytes for weight in module.parameters() for stored in stored_tensors(weight)
    )
    described = "the weights of linear layers are quantised"
    engaged = adapter.stored_weights_engagement(
        elements, share, described, weight_bytes, f"; {compiled}"
    )
    return dataclasses.replace(engaged, share=min(share, compiled_share))


def integration(subject: Any, request: adapter.Request) -> str:
    names = ", ".join(imported_names(request))
    imports = f"from torchao.quantization import {names}"
    quantising = f"quantize_(model, {expression(request)})"
    if request.task == adapter.GENERATE:
        from probes.stacks import decode_step

        return decode_step.fixed_cache_lines(request, imports=[imports], preparation=[quantising])
    return f"""\
import torch
{imports}

{quantising}
compiled = torch.compile(model)
{pytorch.each_call("compiled(*inputs)  # the first call compiles")}"""


def starts(subject: Any, request: adapter.Request) -> dict[str, adapter.StartLines]:
    return dynamo.with_cache_artifacts(integration(subject, request))
