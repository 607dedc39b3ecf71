"""Torch-TensorRT ahead of time: export and build engines; on request with a profile for a range of batch sizes, or CUDA graphs."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import torch
import torch_tensorrt

from probes.protocol import Engagement, Request
from probes.stacks import pytorch, pytorch_kernels, torch_tensorrt_common
from probes.stacks.pytorch import TorchProgram
from probes.subjects.opening import TorchSubject, open_torch_subject

versions = torch_tensorrt_common.versions
settings = torch_tensorrt_common.settings
open_subject = open_torch_subject
synchronise = pytorch.synchronise

PICKLE_PROTOCOL = 4


@dataclasses.dataclass(frozen=True)
class EngineProgram(TorchProgram):
    """A module of engines, and whether its kernels are to be started as a CUDA graph."""

    cuda_graph: bool


#: The module built last: one that takes a range of batch sizes serves them all.
_modules: list[torch.nn.Module] = []


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> EngineProgram:
    """Export and build the engines for these shapes, or once for all batch sizes."""
    dynamic, cuda_graph = (bool(request.options.get(name)) for name in ("dynamic", "cuda_graph"))
    if not _modules or not dynamic:
        with pytorch.ordinary_mode():
            _modules[:] = [
                compile_module(subject, subject.tensors(inputs), request, dynamic=dynamic)
            ]
    torch_tensorrt.runtime.set_cudagraphs_mode(cuda_graph)
    return EngineProgram(subject, _modules[0], cuda_graph)


def compile_module(
    subject: TorchSubject, tensors: tuple[torch.Tensor, ...], request: Request, *, dynamic: bool
) -> torch.fx.GraphModule:
    """Export for these shapes or a range of batch sizes, and build the engines."""
    examples = tuple(tensor.clone() for tensor in tensors)
    shapes, arguments = None, list(examples)
    if dynamic:
        low, best, high = batch_range(request.batch_sizes)
        batch = torch.export.Dim("batch", min=low, max=high)
        shapes = tuple({0: batch} for _ in examples)
        examples = tuple(of_batch(tensor, high) for tensor in examples)
        arguments = [
            torch_tensorrt.Input(
                min_shape=(low, *tensor.shape[1:]),
                opt_shape=(best, *tensor.shape[1:]),
                max_shape=(high, *tensor.shape[1:]),
                dtype=tensor.dtype,
            )
            for tensor in examples
        ]
    exported = torch.export.export(subject.module, examples, dynamic_shapes=shapes, strict=False)
    options = torch_tensorrt_common.compile_options(subject, request)
    return torch_tensorrt.dynamo.compile(exported, arg_inputs=arguments, **options)


def batch_range(sizes: list[int]) -> tuple[int, int, int]:
    """Return the least batch size, the one to be fastest at, and the most: one more where there is one size, for `Dim` takes no such range.

    Upwards, for an example of 1 would fix the size that `torch.export` is to leave free.
    """
    low, best = min(sizes), max(sizes)
    return low, best, max(best, low + 1)


def of_batch(tensor: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Return `tensor` with its rows repeated to `batch_size`."""
    return tensor[torch.arange(batch_size, device=tensor.device) % len(tensor)]


def save(
    compiled: torch.fx.GraphModule, tensors: tuple[torch.Tensor, ...], file: pathlib.Path
) -> None:
    """Write the engines and what joins them, whole or not at all; they are not traced anew for that, as engines are nothing to trace.

    Not part of a build: the file holds the engines as text, and for 1 GB of weights writing and
    reading it takes ten times as long.
    """
    beside = file.with_suffix(".part.pt2")
    # The older pickle protocols end at 4 GB.
    torch_tensorrt.save(
        compiled,
        str(beside),
        arg_inputs=list(tensors),
        retrace=False,
        pickle_protocol=PICKLE_PROTOCOL,
    )
    beside.rename(file)


def load(file: pathlib.Path) -> torch.nn.Module:
    """Return what `save` wrote, in this process or another."""
    return torch_tensorrt.load(str(file)).module()


def engagement(program: EngineProgram, fed: Any) -> Engagement:
    """Count engines and the operators that ran outside them, and captured graphs where they are asked for."""
    engaged = torch_tensorrt_common.engagement(program, fed)
    return (
        torch_tensorrt_common.with_graphs(engaged, pytorch_kernels.watch(lambda: program(fed)))
        if program.cuda_graph
        else engaged
    )


def integration(request: Request) -> str:
    """Return the lines that compile, save, load and run the module."""
    accumulate = ", use_fp32_acc=True" if request.options.get("fp32_accumulation") else ""
    graphs = (
        "torch_tensorrt.runtime.set_cudagraphs_mode(True)\n"
        if request.options.get("cuda_graph")
        else ""
    )
    low, best, high = batch_range(request.batch_sizes)
    shapes, arguments = "None", "list(inputs)"
    if request.options.get("dynamic"):
        shapes = f'tuple({{0: torch.export.Dim("batch", min={low}, max={high})}} for _ in inputs)'
        arguments = f"""[
    torch_tensorrt.Input(
        min_shape=({low}, *tensor.shape[1:]),
        opt_shape=({best}, *tensor.shape[1:]),
        max_shape=({high}, *tensor.shape[1:]),
        dtype=tensor.dtype,
    )
    for tensor in inputs
]"""
    return f"""\
import torch
import torch_tensorrt

arguments = {arguments}
with torch.no_grad():
    exported = torch.export.export(model, inputs, dynamic_shapes={shapes}, strict=False)
    compiled = torch_tensorrt.dynamo.compile(exported, arg_inputs=arguments, min_block_size=1{accumulate})
    torch_tensorrt.save(compiled, "model.pt2", arg_inputs=list(inputs), retrace=False)
loaded = torch_tensorrt.load("model.pt2").module()
{graphs}with torch.inference_mode():
    output = loaded(*inputs)
"""
