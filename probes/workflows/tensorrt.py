"""TensorRT: build an engine from ONNX, and run it on tensors that stay on the GPU."""

from __future__ import annotations

import functools

import tensorrt as trt

from probes.stacks import tensorrt_engine
from probes.subjects import by_request

versions = functools.partial(tensorrt_engine.versions, trt)
settings = tensorrt_engine.settings
open_subject = by_request.open_subject
build = functools.partial(tensorrt_engine.build, trt)
engagement = tensorrt_engine.engagement
integration = functools.partial(tensorrt_engine.integration, trt.__name__)
