"""A PyTorch module as an ONNX file, for one batch size or for any."""

from __future__ import annotations

import pathlib
from typing import Any

import torch

from probes.protocol import Request
from probes.stacks import pytorch
from probes.subjects.opening import TorchSubject

#: `torch.export` takes 0 and 1 for special, so an example that is to stand for any batch size has
#: more.
FEWEST_EXAMPLES = 2


def for_shapes(subject: Any, inputs: list[Any], request: Request) -> pathlib.Path:
    """Return the model as an ONNX file, exporting it for the shapes of `inputs` if need be.

    Afterwards the module's weights are on the host: the file has them, and the GPU need not hold
    them twice.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    file = _place(request, f"batch-{len(inputs[0])}")
    if not file.exists():
        _export(subject, subject.tensors(inputs), file, None)
    pytorch.leave_device(subject)
    return file


def for_any_batch_size(subject: Any, inputs: list[Any], request: Request) -> pathlib.Path:
    """Return the model as an ONNX file whose first dimensions are free; for these shapes alone where the model does not allow that.

    The weights go to the host as well.
    """
    if not isinstance(subject, TorchSubject):
        return pathlib.Path(subject.file)
    free, fixed = _place(request, "any-batch"), _place(request, f"batch-{len(inputs[0])}")
    if not free.exists() and not fixed.exists():
        tensors = subject.tensors(inputs)
        try:
            _export(
                subject,
                tuple(_at_least_two(tensor) for tensor in tensors),
                free,
                _first_dimensions(tensors),
            )
        except (torch.onnx.OnnxExporterError, RuntimeError, ValueError):
            _export(subject, tensors, fixed, None)
    pytorch.leave_device(subject)
    return free if free.exists() else fixed


def _place(request: Request, name: str) -> pathlib.Path:
    return pathlib.Path(request.scratch_directory) / name / "model.onnx"


def _first_dimensions(tensors: tuple[torch.Tensor, ...]) -> tuple[dict[int, Any], ...]:
    batch = torch.export.Dim("batch")
    return tuple({0: batch} if tensor.ndim else {} for tensor in tensors)


def _at_least_two(tensor: torch.Tensor) -> torch.Tensor:
    return (
        torch.cat([tensor] * FEWEST_EXAMPLES)
        if tensor.ndim and len(tensor) < FEWEST_EXAMPLES
        else tensor
    )


def _export(
    subject: TorchSubject,
    tensors: tuple[torch.Tensor, ...],
    file: pathlib.Path,
    free: tuple[dict[int, Any], ...] | None,
) -> None:
    where = next((parameter.device for parameter in subject.module.parameters()), tensors[0].device)
    with pytorch.ordinary_mode():
        arguments = tuple(tensor.to(where, copy=True) for tensor in tensors)
        program = torch.onnx.export(
            subject.module, arguments, dynamo=True, verbose=False, dynamic_shapes=free
        )
    if program is None:
        message = "torch.onnx.export returned no program"
        raise RuntimeError(message)
    # Renamed when whole: a worker that is ended meanwhile leaves nothing that looks like a model.
    beside = file.parent.with_name(f"part-{file.parent.name}")
    beside.mkdir(parents=True, exist_ok=True)
    program.save(beside / file.name, external_data=True)
    beside.rename(file.parent)
