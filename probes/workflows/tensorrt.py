"""TensorRT: the model as ONNX, built into an engine, executed on tensors that stay on the GPU."""

from __future__ import annotations

from typing import Any

import tensorrt as trt

from probes import tensorrt_stack, torch_stack
from probes.cuda_graphs import CapturedProgram
from probes.protocol import Request
from probes.tensorrt_stack import Context

settings = tensorrt_stack.settings
open_subject = tensorrt_stack.open_subject
engagement = tensorrt_stack.engagement
synchronise = torch_stack.synchronise


def versions() -> dict[str, str]:
    """Return the versions of the engine's library and of what exports for it."""
    return {trt.__name__: trt.__version__, **torch_stack.versions("onnx", "onnxscript")}


def build(subject: Any, inputs: list[Any], request: Request) -> Context | CapturedProgram:
    """Export, build or load the engine, and make a context for these shapes."""
    return tensorrt_stack.build(trt, subject, inputs, request)


def integration(request: Request) -> str:
    """Return the lines that export, build, save, load and run the engine."""
    return tensorrt_stack.integration(trt.__name__, cuda_graph=bool(request.options.get("cuda_graph")))
