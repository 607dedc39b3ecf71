"""Export a module with free dimensions."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

import torch

from probes.adapter import UnsupportedError
from probes.subjects.exported import batch_range
from probes.subjects.torch_subject import TorchSubject

#: For each argument, the free dimensions by axis, as `torch.export` takes them.
FreeDimensions: TypeAlias = tuple[dict[int, Any], ...]

#: `torch.export` specialises sizes 0 and 1, so the example for a free batch size needs more rows.
MIN_EXAMPLE_BATCH = 2
#: Lines of an integration that define `example` from `inputs`, for `torch.export` with a free
#: batch.
EXAMPLE_LINES = """\
# torch.export fixes a size of 1, so the example has two rows or more.
example = tuple(torch.cat([x, x]) if x.dim() and len(x) == 1 else x for x in inputs)
"""
#: The same with the `shapes` of a program that takes all sizes that the model's code takes.
EXPORT_LINES = f"""\
{EXAMPLE_LINES}shapes = tuple({{axis: torch.export.Dim.AUTO for axis in range(x.dim())}} for x in example)
"""  # noqa: E501 - the lines are counted, so they are not wrapped
NO_BATCH = "the inputs have no common first dimension, so there is no batch that could be free"
NO_FREE_BATCH = "the model cannot be exported with a free batch"
#: What exporters raise for a model whose code fixes a dimension.
EXPORT_ERRORS = (torch.onnx.OnnxExporterError, RuntimeError, ValueError)


def batch(tensors: tuple[torch.Tensor, ...]) -> FreeDimensions:
    """Return the first dimension of each tensor, which all have in common."""
    dimension = torch.export.Dim("batch")
    return tuple({0: dimension} if tensor.ndim else {} for tensor in tensors)


def export_every(
    subject: TorchSubject, tensors: tuple[torch.Tensor, ...]
) -> torch.export.ExportedProgram:
    """Return the exported program with all dimensions free that the code of the model does not fix.

    Raise `UnsupportedError` if the batch cannot be free.
    """
    if not subject.has_batch:
        raise UnsupportedError(NO_BATCH)
    examples = tuple(with_min_batch(tensor) for tensor in tensors)
    free = tuple(dict.fromkeys(range(each.ndim), torch.export.Dim.AUTO) for each in examples)
    shapes = by_parameter(subject.module, free)
    try:
        program = torch.export.export(subject.module, examples, dynamic_shapes=shapes, strict=False)
    except EXPORT_ERRORS as problem:
        raise UnsupportedError(NO_FREE_BATCH) from problem
    low, high = batch_range(program)
    if low == high:
        message = f"{NO_FREE_BATCH}: its code takes {low} rows"
        raise UnsupportedError(message)
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
