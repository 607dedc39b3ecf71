"""TensorRT for RTX: build an engine from ONNX, and run it on tensors that stay on the GPU."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import tensorrt_rtx as trt

from probes.adapter import Request
from probes.stacks import onnx_export, pytorch, tensorrt_engine
from probes.stacks.tensorrt_engine import Model

versions = functools.partial(tensorrt_engine.versions, trt)
settings = tensorrt_engine.settings
open_subject = tensorrt_engine.open_subject
build = functools.partial(tensorrt_engine.build, trt)
synchronise = pytorch.synchronise
engagement = tensorrt_engine.engagement
integration = functools.partial(tensorrt_engine.integration, trt.__name__)


def build_for(target: str, subject: Model, inputs: list[Any], request: Request) -> None:
    """Export and build `TARGET.engine` for a GPU that need not be present, such as `sm_89`."""
    model = onnx_export.for_any_batch_size(subject, inputs, request)
    shapes = tensorrt_engine.input_shapes(subject, request)
    plan = tensorrt_engine.build_plan(trt, model, shapes, tensorrt_engine.EngineLog(), target)
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_bytes(plan)
