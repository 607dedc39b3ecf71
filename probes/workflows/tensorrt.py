"""TensorRT: build an engine from ONNX, and run it on tensors that stay on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorrt as trt

from probes.protocol import Request
from probes.stacks import pytorch, tensorrt_engine
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.tensorrt_engine import EngineContext
from probes.subjects.torch_subject import TorchSubject

if TYPE_CHECKING:
    from probes.subjects.onnx_file import OnnxSubject

settings = tensorrt_engine.settings
open_subject = tensorrt_engine.open_subject
engagement = tensorrt_engine.engagement
synchronise = pytorch.synchronise


def versions() -> dict[str, str]:
    return {trt.__name__: trt.__version__, **pytorch.versions("onnx", "onnxscript")}


def build(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> EngineContext | CapturedProgram:
    """Export, build or load the engine, and make a context for these shapes."""
    return tensorrt_engine.build(trt, subject, inputs, request)


def integration(request: Request) -> str:
    return tensorrt_engine.integration(trt.__name__, request)
