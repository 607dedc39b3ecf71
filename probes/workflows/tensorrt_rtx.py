"""TensorRT for RTX: the model as ONNX, built into an engine, executed on tensors that stay on the GPU."""

from __future__ import annotations

import pathlib
from typing import Any

import tensorrt_rtx as trt

from probes.protocol import Request
from probes.stacks import onnx_export, pytorch, tensorrt_engine
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.tensorrt_engine import Context

settings = tensorrt_engine.settings
open_subject = tensorrt_engine.open_subject
engagement = tensorrt_engine.engagement
synchronise = pytorch.synchronise


def versions() -> dict[str, str]:
    """Return the versions of the engine's library and of what exports for it."""
    return {trt.__name__: trt.__version__, **pytorch.versions("onnx", "onnxscript")}


def build(subject: Any, inputs: list[Any], request: Request) -> Context | CapturedProgram:
    """Export, build or load the engine, and make a context for these shapes."""
    return tensorrt_engine.build(trt, subject, inputs, request)


def build_for(target: str, subject: Any, inputs: list[Any], request: Request) -> None:
    """Export and build an engine for a GPU that need not be here, and leave it as `TARGET.engine`."""
    model = onnx_export.for_any_batch_size(subject, inputs, request)
    shapes = tensorrt_engine.fed_shapes(subject, request)
    plan = tensorrt_engine.build_plan(trt, model, shapes, tensorrt_engine.Log(), target)
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_bytes(plan)


def integration(request: Request) -> str:
    """Return the lines that export, build, save, load and run the engine."""
    return tensorrt_engine.integration(
        trt.__name__, cuda_graph=bool(request.options.get("cuda_graph"))
    )
