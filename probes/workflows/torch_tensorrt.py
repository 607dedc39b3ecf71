"""Torch-TensorRT ahead of time: export the model and build its engines."""

from __future__ import annotations

from typing import Any

import torch
import torch_tensorrt

from probes.adapter import Engagement, Request
from probes.stacks import cuda_graphs, onnx_export, pytorch, torch_tensorrt_engines
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = torch_tensorrt_engines.versions
settings = torch_tensorrt_engines.settings
open_subject = open_torch_subject
#: The module built last, by length; one that takes a range of batch sizes serves them all.
_modules: dict[int, torch.nn.Module] = {}


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    dynamic, cuda_graph = (bool(request.options.get(name)) for name in ("dynamic", "cuda_graph"))
    length = request.input_tokens
    if length not in _modules or not dynamic:
        _modules[length] = compile_module(
            subject, subject.tensors(inputs), request, dynamic=dynamic
        )
    torch_tensorrt.runtime.set_cudagraphs_mode(cuda_graph)
    return TorchProgram(subject, _modules[length], cuda_graph)


def compile_module(
    subject: TorchSubject, tensors: tuple[torch.Tensor, ...], request: Request, *, dynamic: bool
) -> torch.fx.GraphModule:
    examples = tuple(tensor.clone() for tensor in tensors)
    shapes, arguments = None, list(examples)
    if dynamic:
        low, best, high = batch_range(request.batch_sizes)
        batch = torch.export.Dim("batch", min=low, max=high)
        shapes = onnx_export.by_parameter(subject.module, tuple({0: batch} for _ in examples))
        examples = tuple(repeat_rows(tensor, high) for tensor in examples)
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
    options = torch_tensorrt_engines.compile_options(request)
    return torch_tensorrt.dynamo.compile(exported, arg_inputs=arguments, **options)


def batch_range(sizes: list[int]) -> tuple[int, int, int]:
    """Return the smallest batch size, the one to optimise for, and the largest.

    `Dim` needs a range of at least two sizes, so a single size gets one more. It grows upwards,
    because `torch.export` specialises an example of batch size 1.
    """
    low, best = min(sizes), max(sizes)
    return low, best, max(best, low + 1)


def repeat_rows(tensor: torch.Tensor, batch_size: int) -> torch.Tensor:
    return tensor[torch.arange(batch_size, device=tensor.device) % len(tensor)]


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    """Return the share that engines replace; 0 if the graphs of `cuda_graph` are missing."""
    engaged = torch_tensorrt_engines.engagement(program, device_inputs)
    if not program.captures:
        return engaged
    launches = cuda_graphs.count_launches(lambda: program(device_inputs))
    return cuda_graphs.with_graphs(engaged, launches, "Torch-TensorRT captured no CUDA graph")


def integration(subject: Any, request: Request) -> str:
    options = torch_tensorrt_engines.printed_options(request).items()
    given = ", ".join(f"{name}={value}" for name, value in options)
    captured = request.options.get("cuda_graph")
    graphs = "torch_tensorrt.runtime.set_cudagraphs_mode(True)\n" if captured else ""
    low, best, high = batch_range(request.batch_sizes)
    example, example_lines, shapes, arguments = "inputs", "", "None", "list(inputs)"
    if request.options.get("dynamic"):
        example, example_lines = "example", onnx_export.EXAMPLE_LINES
        shapes = f'tuple({{0: torch.export.Dim("batch", min={low}, max={high})}} for _ in example)'
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

{example_lines}arguments = {arguments}
with torch.no_grad():
    exported = torch.export.export(model, {example}, dynamic_shapes={shapes}, strict=False)
    compiled = torch_tensorrt.dynamo.compile(exported, arg_inputs=arguments, {given})
    torch_tensorrt.save(compiled, "model.pt2", arg_inputs=list(inputs), retrace=False)
loaded = torch_tensorrt.load("model.pt2").module()
{graphs}{pytorch.each_call("loaded(*inputs)")}"""
