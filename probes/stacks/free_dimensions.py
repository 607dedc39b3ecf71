"""Export a module with free dimensions: the batch and, for models of tokens, the length."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from probes.adapter import UnsupportedError
from probes.protocol import Request
from probes.subjects.exported import batch_range
from probes.subjects.torch_subject import TorchSubject

#: For each argument, the free dimensions by axis, as `torch.export` takes them.
FreeDimensions: TypeAlias = tuple[dict[int, Any], ...]

#: `torch.export` specialises sizes 0 and 1, so the example for a free batch size needs more rows.
MIN_EXAMPLE_BATCH = 2
LENGTH_AXIS = 1
#: Lines of an integration that define `example` from `inputs`, for `torch.export` with a free
#: batch. The exporter of ONNX keeps a size of 1 free by itself.
EXAMPLE_LINES = """\
# torch.export fixes a size of 1, so the example has two rows or more.
example = tuple(torch.cat([x, x]) if x.dim() and len(x) == 1 else x for x in inputs)
"""
#: Kinds of models whose inputs are examples of the user.
OWN_INPUTS = {"factory", "exported"}
NO_BATCH = "the inputs have no common first dimension, so there is no batch that could be free"
#: What exporters raise for a model whose code fixes a dimension.
EXPORT_ERRORS = (torch.onnx.OnnxExporterError, RuntimeError, ValueError)


def batch(tensors: tuple[torch.Tensor, ...]) -> FreeDimensions:
    """Return the first dimension of each tensor, which all have in common."""
    dimension = torch.export.Dim("batch")
    return tuple({0: dimension} if tensor.ndim else {} for tensor in tensors)


def batch_and_length(tensors: tuple[torch.Tensor, ...], length: int) -> FreeDimensions:
    """Return the batch of each tensor, and the second dimension of those that are `length` long."""
    dimension = torch.export.Dim("length")
    return tuple(
        {**free, LENGTH_AXIS: dimension}
        if tensor.ndim > LENGTH_AXIS and tensor.shape[LENGTH_AXIS] == length
        else free
        for tensor, free in zip(tensors, batch(tensors), strict=True)
    )


def export_every(
    module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]
) -> torch.export.ExportedProgram:
    """Return the exported program with all dimensions free that the code of the model does not fix.

    Raise `ValueError` if it fixes the batch.
    """
    free = tuple(dict.fromkeys(range(tensor.ndim), torch.export.Dim.AUTO) for tensor in tensors)
    program = torch.export.export(
        module, tensors, dynamic_shapes=by_parameter(module, free), strict=False
    )
    low, high = batch_range(program)
    if low == high:
        raise ValueError(NO_BATCH)
    return program


def with_min_batch(tensor: torch.Tensor) -> torch.Tensor:
    """Return an example with enough rows for a free batch."""
    if tensor.ndim and len(tensor) < MIN_EXAMPLE_BATCH:
        return torch.cat([tensor] * MIN_EXAMPLE_BATCH)
    return tensor


def by_parameter(module: torch.nn.Module, free: FreeDimensions) -> Any:
    """Return the free dimensions in the structure of the parameters of `forward`.

    Exporters take those of `*arguments` as one tuple, after those of the parameters before it.
    """
    kinds = [each.kind for each in inspect.signature(module.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return free
    named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*free[:named], free[named:]) if len(free) > named else free


def integration(request: Request, tensors: str = "inputs", axes: str = "") -> str:
    """Return the line that defines the `shapes` of `tensors`; `axes` are those that are free.

    By default they are the batch and, in models of the transformers library, the length of a text.
    """
    free = 1 if request.subject["kind"] in OWN_INPUTS else LENGTH_AXIS + 1
    axes = axes or f"range(min(x.dim(), {free}))"
    return f"""\
shapes = tuple({{axis: torch.export.Dim.AUTO for axis in {axes}}} for x in {tensors})
"""


def shared_name(subject: TorchSubject, request: Request) -> str:
    """Return the name of an export that serves all shapes; of those of other lengths if it cannot.

    Only a length in tokens may become free.
    """
    return "any-shape" if subject.has_length else f"any-batchx{request.input_tokens}"


def first_that_works(
    export: Callable[[FreeDimensions], Any],
    subject: TorchSubject,
    tensors: tuple[torch.Tensor, ...],
    length: int,
) -> Any:
    """Return the export with a free batch and, if the model allows it, length.

    `length` is that of the inputs in tokens.

    Raise `UnsupportedError` if the batch cannot be free.
    """
    if not subject.has_batch:
        raise UnsupportedError(NO_BATCH)
    if subject.has_length:
        with contextlib.suppress(*EXPORT_ERRORS):  # its code fixes the length
            return export(batch_and_length(tensors, length))
    try:
        return export(batch(tensors))
    except EXPORT_ERRORS as problem:
        message = "the model cannot be exported with a free batch"
        raise UnsupportedError(message) from problem


def export_for_any_shape(
    subject: TorchSubject, tensors: tuple[torch.Tensor, ...], length: int
) -> Any:
    """Return the exported program whose batch and, for tokens, length are free.

    Raise `UnsupportedError` if the batch cannot be free.
    """
    examples = tuple(with_min_batch(tensor) for tensor in tensors)
    return first_that_works(
        lambda dimensions: torch.export.export(
            subject.module,
            examples,
            dynamic_shapes=by_parameter(subject.module, dimensions),
            strict=False,
        ),
        subject,
        examples,
        length,
    )
