"""Export a PyTorch module as an ONNX file, for one batch size or for any."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import pathlib
import traceback
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch

from probes.adapter import Request, UnsupportedError
from probes.facts import EACH_CALL, SizeLimit
from probes.files import replace_when_complete
from probes.stacks import pytorch
from probes.subjects.by_request import Model, TorchSubject
from probes.subjects.exported import batch_range, input_ranges
from probes.subjects.outputs import types_in

FILE = "model.onnx"
#: The free dimensions: the first of each input, all that the model's code does not fix, or none.
Free: TypeAlias = Literal["batch", "every"] | None


def model_file(
    subject: Model, inputs: list[Any], request: Request, free: Free = None
) -> pathlib.Path:
    """Return the model as an ONNX file for the shapes of `inputs`, exported if it does not exist.

    With `batch` the first dimensions are free, unless the model does not export that way. With
    `every` at least these are, else raise `UnsupportedError`: the exporter of ONNX has further ways
    to trace a module than `torch.export`. Afterwards the module's weights are on the host: the GPU
    need not hold them twice.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    folder = pathlib.Path(request.scratch_directory)
    fixed = (folder / f"batch-{rows_of(inputs)}x{request.input_tokens}" / FILE, None)
    any_batch = folder / f"any-batchx{request.input_tokens}" / FILE
    any_shape = folder / "any-shape" / FILE
    files: list[tuple[pathlib.Path, Free]] = [fixed]
    if free == "batch":
        files = [(any_batch, "batch"), fixed]
    elif free == "every":
        files = [(any_shape, "every")]
        files += [(any_shape, "batch")] if subject.has_batch else []
    written = next((file for file, _ in files if file.exists()), None)
    if written is None:
        try:
            written = _export(subject, subject.tensors(inputs), files)
        except EXPORT_ERRORS as problem:
            if free != "every":
                raise
            raise UnsupportedError(NO_FREE_BATCH) from problem
    pytorch.move_weights_to_host(subject)
    return written


def integration(request: Request, *, is_free: bool = False) -> tuple[str, str]:
    """Return the exporting lines, none for an ONNX file, and the expression for its path."""
    if request.subject["kind"] == "onnx":
        return "", "model"
    before, exported = "", "model, inputs"
    if is_free:
        before = EXPORT_LINES
        exported = "torch.export.export(model, example, dynamic_shapes=shapes, strict=False)"
    call = f'torch.onnx.export({exported}, dynamo=True).save("model.onnx", external_data=True)'
    return f"{before}with torch.no_grad():\n    {call}\n", '"model.onnx"'


def rows_of(inputs: list[Any]) -> int:
    """Return the first dimension of the arrays; 1 for numbers."""
    return next((len(array) for array in inputs if array.ndim), 1)


def _export(
    subject: TorchSubject,
    tensors: tuple[torch.Tensor, ...],
    files: Sequence[tuple[pathlib.Path, Free]],
) -> pathlib.Path:
    if any(tensor.is_complex() for tensor in tensors):
        raise UnsupportedError(
            "the ONNX exporter gives complex inputs a further dimension of real numbers, so the"
            " model cannot be called as in PyTorch; a module that takes both parts can be measured"
        )
    parameters = subject.module.parameters()
    device = next((parameter.device for parameter in parameters), tensors[0].device)
    arguments = tuple(tensor.to(device, copy=True) for tensor in tensors)
    # Before the export: it returns free sizes as tensors.
    output = subject.module(*(tensor.clone() for tensor in arguments))
    if types := types_in(output, lambda each: each is None or isinstance(each, torch.Tensor)):
        raise UnsupportedError(
            f"the model returns values of the type {', '.join(sorted(types))},"
            " which an ONNX file cannot return",
            "measure a module that calls the model and returns its tensors only; sizes can be read"
            " from their shapes",
        )
    first, *second = files
    try:
        return _write(subject, arguments, *first)
    except (UnsupportedError, *EXPORT_ERRORS):
        if not second:
            raise
        traceback.print_exc()
    return _write(subject, arguments, *second[0])


def _write(
    subject: TorchSubject, arguments: tuple[torch.Tensor, ...], file: pathlib.Path, free: Free
) -> pathlib.Path:
    program = _program_of(subject, arguments, free)
    keep_limits(program.exported_program, file.parent.parent)
    with replace_when_complete(file.parent) as directory:
        directory.mkdir(parents=True)
        program.save(directory / file.name, external_data=True)
    return file


def _program_of(subject: TorchSubject, arguments: tuple[torch.Tensor, ...], free: Free) -> Any:
    if free == "every":
        return torch.onnx.export(export_every(subject, arguments), dynamo=True, verbose=False)
    shapes = None
    if free:
        arguments = tuple(map(with_min_batch, arguments))
        dimension = torch.export.Dim("batch")
        first = tuple({0: dimension} if each.ndim else {} for each in arguments)
        shapes = by_parameter(subject.module, first)
    return torch.onnx.export(
        subject.module, arguments, dynamo=True, verbose=False, dynamic_shapes=shapes
    )


#: `torch.export` specialises sizes 0 and 1, so the example for a free batch size needs more rows.
MIN_EXAMPLE_BATCH = 2
#: Lines of an integration that define `example` from `inputs`, for `torch.export` with a free
#: batch.
EXAMPLE_LINES = """\
# torch.export fixes a size of 1, so the example has two rows or more.
example = tuple(torch.cat([x, x]) if x.dim() and len(x) == 1 else x for x in inputs)
"""
#: Also `shapes`, for a program that takes all sizes that the model's code takes.
EXPORT_LINES = f"""\
{EXAMPLE_LINES}shapes = tuple({{axis: torch.export.Dim.AUTO for axis in range(x.dim())}} for x in example)
"""  # noqa: E501 - the lines are counted, so they are not wrapped
NO_BATCH = "the inputs have no common first dimension, so there is no batch that could be free"
NO_FREE_BATCH = "the model cannot be exported with a free batch"
#: What exporters raise for a model whose code fixes a dimension.
EXPORT_ERRORS = (torch.onnx.OnnxExporterError, RuntimeError, ValueError)


def export(
    subject: TorchSubject, inputs: list[Any], request: Request
) -> torch.export.ExportedProgram:
    tensors = tuple(tensor.clone() for tensor in subject.tensors(inputs))
    if request.options.get("dynamic"):
        program = export_every(subject, tensors)
        keep_limits(program, pathlib.Path(request.scratch_directory))
        return program
    return torch.export.export(subject.module, tensors, strict=False)


#: The `SizeLimit`s of a program with free dimensions, in the folder of its arm.
LIMITS = "limits.json"


def keep_limits(program: torch.export.ExportedProgram, directory: pathlib.Path) -> None:
    """Write the limits before the program itself, which later processes find."""
    limits = [
        SizeLimit(number, axis, low, int(high) if math.isfinite(high) else None)
        for number, ranges in enumerate(input_ranges(program))
        for axis, (low, high) in enumerate(ranges)
        if low < high and (low > 1 or math.isfinite(high))
    ]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / LIMITS).write_text(json.dumps([dataclasses.asdict(each) for each in limits]))


def size_limits(request: Request) -> tuple[SizeLimit, ...]:
    """Return what limits the program of an arm with free dimensions once it is built."""
    file = pathlib.Path(request.scratch_directory) / LIMITS
    kept = json.loads(file.read_text()) if file.exists() else []
    return tuple(SizeLimit(**each) for each in kept)


def with_limits(lines: str, request: Request) -> str:
    """Return the lines with checks in each call: the program may return wrong values instead."""
    checks = ""
    for each in size_limits(request):
        most = "" if each.high is None else f" <= {each.high}"
        size = f"inputs[{each.input}].shape[{each.axis}]"
        checks += f'assert {each.low} <= {size}{most}, "the program takes no other size"\n'
    return EACH_CALL.sub(lambda comment: comment[0] + checks, lines)


def export_every(
    subject: TorchSubject, tensors: tuple[torch.Tensor, ...]
) -> torch.export.ExportedProgram:
    """Free all dimensions that the code does not fix; raise `UnsupportedError` if not the batch."""
    if not subject.has_batch:
        raise UnsupportedError(NO_BATCH)
    examples = tuple(map(with_min_batch, tensors))
    free = tuple(dict.fromkeys(range(each.ndim), torch.export.Dim.AUTO) for each in examples)
    shapes = by_parameter(subject.module, free)
    try:
        program = torch.export.export(subject.module, examples, dynamic_shapes=shapes, strict=False)
    except EXPORT_ERRORS as problem:
        raise UnsupportedError(NO_FREE_BATCH) from problem
    low, high = batch_range(program)
    if low == high:
        raise UnsupportedError(f"{NO_FREE_BATCH}: its code takes {low} rows")
    return program


def with_min_batch(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.ndim and len(tensor) < MIN_EXAMPLE_BATCH:
        return torch.cat([tensor] * MIN_EXAMPLE_BATCH)
    return tensor


def by_parameter(module: torch.nn.Module, free: tuple[dict[int, Any], ...]) -> Any:
    """Group by parameter of `forward`: exporters take those of `*arguments` as one tuple."""
    kinds = [each.kind for each in inspect.signature(module.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return free
    named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*free[:named], free[named:]) if len(free) > named else free
