"""Export a PyTorch module as an ONNX file, for one batch size or for any."""

from __future__ import annotations

import inspect
import pathlib
import traceback
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch

from probes.adapter import UnsupportedError
from probes.partial_file import replace_when_complete
from probes.protocol import Request
from probes.stacks import pytorch
from probes.subjects.exported import batch_range
from probes.subjects.outputs import other_types
from probes.subjects.torch_subject import TorchSubject

if TYPE_CHECKING:
    from probes.subjects.onnx_file import OnnxSubject


FILE = "model.onnx"
#: A file next to one that the older exporter has written.
TRACED = "traced"
#: What it raises for a model that it does not take.
TRACING_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError)
#: Names of inputs for the older exporter.
NAMES = 'names = [f"input_{number}" for number in range(len(example))]\n'
#: Of the dimensions, those that the code of the model does not fix.
EVERY: Literal["every"] = "every"


def for_shapes(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> pathlib.Path:
    """Return the model as an ONNX file for the shapes of `inputs`, exported if it does not exist.

    Afterwards the module's weights are on the host: the GPU need not hold them twice.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    file = _model_file(request, f"batch-{rows_of(inputs)}")
    if not file.exists():
        _export(subject, subject.tensors(inputs), file, None)
    pytorch.move_weights_to_host(subject)
    return file


def for_any_batch_size(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> pathlib.Path:
    """Return the model as an ONNX file whose first dimensions are free.

    A model that does not export that way is exported for the shapes of `inputs`. Afterwards the
    module's weights are on the host.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    free, fixed = (
        _model_file(request, "any-batch"),
        _model_file(request, f"batch-{rows_of(inputs)}"),
    )
    if not free.exists() and not fixed.exists():
        tensors = subject.tensors(inputs)
        examples = tuple(with_min_batch(tensor) for tensor in tensors)
        try:
            _export(subject, examples, free, batch(tensors))
        except EXPORT_ERRORS:
            _export(subject, tensors, fixed, None)
    pytorch.move_weights_to_host(subject)
    return free if free.exists() else fixed


def for_any_shape(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> pathlib.Path:
    """Return the model as an ONNX file with all dimensions free that its code does not fix.

    Raise `UnsupportedError` for a model that cannot be exported with a free batch. Afterwards the
    module's weights are on the host.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    file = _folder(request) / "any-shape" / FILE
    if not file.exists():
        tensors = subject.tensors(inputs)
        # The exporter returns free sizes as tensors.
        with pytorch.without_inference_mode():
            refuse_other_outputs(subject.module(*tensors))
        try:
            _export(subject, tensors, file, EVERY)
        except (UnsupportedError, torch.onnx.OnnxExporterError):
            # The exporter of ONNX has further ways to trace a module.
            if not subject.has_batch:
                raise
            examples = tuple(with_min_batch(tensor) for tensor in tensors)
            try:
                _export(subject, examples, file, batch(examples))
            except EXPORT_ERRORS as problem:
                if not _trace(subject, examples, file, is_free=True):
                    raise UnsupportedError(NO_FREE_BATCH) from problem
    pytorch.move_weights_to_host(subject)
    return file


def integration(request: Request, *, is_free: bool = False) -> tuple[str, str]:
    """Return the lines that export `model`, and the expression for the path of the file.

    There are no lines for an ONNX file: `model` is then its path.
    """
    if request.subject["kind"] == "onnx":
        return "", "model"
    # The exporter with `dynamo=True` refuses some models.
    is_traced = any(_folder(request).glob(f"*/{TRACED}"))
    arguments = {
        (False, False): "model, inputs",
        (False, True): "torch.export.export(model, example, dynamic_shapes=shapes, strict=False)",
        (True, False): "model, inputs",
        (True, True): "model, example",
    }[is_traced, is_free]
    names = 'input_names=names, dynamic_axes=dict.fromkeys(names, {0: "batch"})'
    call = f'torch.onnx.export({arguments}, dynamo=True).save("model.onnx", external_data=True)'
    before = EXPORT_LINES if is_free else ""
    if is_traced:
        before = f"{EXAMPLE_LINES}{NAMES}" if is_free else ""
        more = f", {names}" if is_free else ""
        call = f'torch.onnx.export({arguments}, "model.onnx", dynamo=False{more})'
    return f"{before}with torch.no_grad():\n    {call}\n", '"model.onnx"'


def rows_of(inputs: list[Any]) -> int:
    """Return the first dimension of the arrays; 1 for numbers."""
    return next((len(array) for array in inputs if array.ndim), 1)


def _folder(request: Request) -> pathlib.Path:
    return pathlib.Path(request.scratch_directory)


def _model_file(request: Request, name: str) -> pathlib.Path:
    return _folder(request) / f"{name}x{request.input_tokens}" / FILE


def _export(
    subject: TorchSubject,
    tensors: tuple[torch.Tensor, ...],
    file: pathlib.Path,
    free: FreeDimensions | Literal["every"] | None,
) -> None:
    if any(tensor.is_complex() for tensor in tensors):
        message = (
            "the ONNX exporter gives complex inputs a further dimension of real numbers, so the"
            " model cannot be called as in PyTorch; a module that takes both parts can be measured"
        )
        raise UnsupportedError(message)
    parameters = subject.module.parameters()
    device = next((parameter.device for parameter in parameters), tensors[0].device)
    with pytorch.without_inference_mode():
        arguments = tuple(tensor.to(device, copy=True) for tensor in tensors)
        try:
            if free == EVERY:
                exported = export_every(subject, arguments)
                program = torch.onnx.export(exported, dynamo=True, verbose=False)
            else:
                shapes = by_parameter(subject.module, free) if free else None
                program = torch.onnx.export(
                    subject.module, arguments, dynamo=True, verbose=False, dynamic_shapes=shapes
                )
        except torch.onnx.OnnxExporterError:
            refuse_other_outputs(subject.module(*arguments))
            if free is not None or not _trace(subject, arguments, file):
                raise
            return
    if program is None:
        message = "torch.onnx.export returned no program"
        raise RuntimeError(message)
    with replace_when_complete(file.parent) as directory:
        directory.mkdir(parents=True, exist_ok=True)
        program.save(directory / file.name, external_data=True)


def _trace(
    subject: TorchSubject,
    arguments: tuple[torch.Tensor, ...],
    file: pathlib.Path,
    *,
    is_free: bool = False,
) -> bool:
    """Export with PyTorch's older exporter, which traces one call; return whether it takes it.

    The first dimension of each input is free if `is_free`. Where the traced call depends on it,
    outputs for another number of rows are wrong, which the check of outputs finds.
    """
    names = [f"input_{number}" for number in range(len(arguments))]
    axes = {name: {0: "batch"} for name, each in zip(names, arguments, strict=True) if each.ndim}
    free = {"input_names": names, "dynamic_axes": axes} if is_free else {}
    with replace_when_complete(file.parent) as directory, pytorch.without_inference_mode():
        directory.mkdir(parents=True, exist_ok=True)
        try:
            copies = tuple(tensor.clone() for tensor in arguments)
            path = str(directory / file.name)
            torch.onnx.export(subject.module, copies, path, dynamo=False, **free)
        except TRACING_ERRORS:
            traceback.print_exc()
            return False
        (directory / TRACED).touch()
    return True


def is_traced(file: pathlib.Path) -> bool:
    return file.with_name(TRACED).exists()


def refuse_other_outputs(output: Any) -> None:
    """Raise `UnsupportedError` if `output` has values that an ONNX file cannot return."""
    if types := other_types(output):
        message = (
            f"besides tensors the model returns values of the type {', '.join(sorted(types))},"
            " which an ONNX file cannot return"
        )
        raise UnsupportedError(
            message,
            "measure a module that calls the model and returns its tensors only; sizes can be read"
            " from their shapes",
        )


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


def export(
    subject: TorchSubject, inputs: list[Any], request: Request
) -> torch.export.ExportedProgram:
    """Return the exported program for these shapes, or for any if the arm is dynamic."""
    with pytorch.without_inference_mode():
        tensors = tuple(tensor.clone() for tensor in subject.tensors(inputs))
        if request.options.get("dynamic"):
            return export_every(subject, tensors)
        return torch.export.export(subject.module, tensors, strict=False)


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
