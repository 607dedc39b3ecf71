"""Configure OpenVINO, and read back the precision and threads of a compiled model."""

from __future__ import annotations

import collections
import pathlib
from typing import Any

import openvino

from probes.adapter import Request
from probes.stacks import pytorch

#: OpenVINO's name of each precision. Without this hint it computes float32 models in bfloat16 on a
#: CPU that has instructions for it.
PRECISION_HINTS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}

#: Layers of a compiled model that hold or pass data and compute nothing.
DATA_LAYERS = {"Const", "Input", "Output"}


def versions() -> dict[str, str]:
    """Return the versions of OpenVINO, torch and `packaging`, an undeclared import of OpenVINO."""
    return {"openvino": openvino.__version__, **pytorch.versions("packaging")}


def settings(request: Request) -> dict[str, str]:
    return {
        **pytorch.apply_settings(request),
        "inference_num_threads": str(request.threads),
        "performance_hint": "LATENCY",
    }


def configuration(dtype: str, request: Request) -> dict[str, str]:
    return {
        "INFERENCE_PRECISION_HINT": PRECISION_HINTS[dtype],
        "INFERENCE_NUM_THREADS": str(request.threads),
        "PERFORMANCE_HINT": "LATENCY",
        # For later processes of this arm.
        "CACHE_DIR": str(pathlib.Path(request.scratch_directory) / "cache" / "openvino"),
    }


def describe_compiled(compiled: Any) -> dict[str, Any]:
    layers: collections.Counter[str] = collections.Counter()
    precisions: collections.Counter[str] = collections.Counter()
    for operation in compiled.get_runtime_model().get_ops():
        runtime_info = operation.get_rt_info()
        layers[runtime_info["layerType"].value] += 1
        precisions[runtime_info["runtimePrecision"].value] += 1
    return {
        "devices": list(compiled.get_property("EXECUTION_DEVICES")),
        "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
        "inference_precision": compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
        "layers": dict(layers),
        "layer_precisions": dict(precisions),
    }
