"""TensorRT for RTX: build an engine from ONNX, and run it on tensors that stay on the GPU."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import tensorrt_rtx as trt

from probes.protocol import Request
from probes.stacks import onnx_export, pytorch, tensorrt_build, tensorrt_engine
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


def build_for(
    target: str, subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> None:
    """Export and build `TARGET.engine` for a GPU that need not be present, such as `sm_89`."""
    model = onnx_export.for_any_batch_size(subject, inputs, request)
    shapes = tensorrt_engine.input_shapes(subject, request)
    plan = tensorrt_build.build_plan(trt, model, shapes, tensorrt_build.EngineLog(), target)
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_bytes(plan)


def integration(request: Request) -> str:
    return tensorrt_engine.integration(trt.__name__, request)
