"""What the workflows on OpenVINO share: its settings, and what a compiled model really computes in."""

from __future__ import annotations

import collections
import pathlib
from typing import TYPE_CHECKING, Any

import openvino

from probes.protocol import Request
from probes.stacks import pytorch
from probes.subjects.by_task import open_by_task

if TYPE_CHECKING:
    from probes.subjects.causal_lm import CausalLm
    from probes.subjects.onnx_file import OnnxSubject
    from probes.subjects.opening import TorchSubject

#: OpenVINO's names of the precisions: without this hint it computes float32 models in bfloat16
#: where the processor can.
HINTS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}

#: Layers of a compiled model that hold or pass data.
NO_WORK = {"Const", "Input", "Output"}


def versions() -> dict[str, str]:
    """Return the versions of OpenVINO, of torch, and of what OpenVINO imports without declaring it."""
    return {"openvino": openvino.__version__, **pytorch.versions("packaging")}


def settings(request: Request) -> dict[str, str]:
    """Return what is asked of OpenVINO beside the settings of PyTorch."""
    return {
        **pytorch.apply_settings(request),
        "inference_num_threads": str(request.threads),
        "performance_hint": "LATENCY",
    }


def open_subject(request: Request) -> TorchSubject | OnnxSubject | CausalLm:
    """Open an ONNX file as it is, anything else as a PyTorch module, or language model, to be exported."""
    if request.subject["kind"] == "onnx":
        from probes.subjects.onnx_file import OnnxSubject  # noqa: PLC0415 - needs packages that are of no use otherwise

        return OnnxSubject(request)
    return open_by_task(request)


def configuration(dtype: str, request: Request) -> dict[str, str]:
    """Return the properties a model is compiled with."""
    return {
        "INFERENCE_PRECISION_HINT": HINTS[dtype],
        "INFERENCE_NUM_THREADS": str(request.threads),
        "PERFORMANCE_HINT": "LATENCY",
        "CACHE_DIR": str(cache_directory(request)),
    }


def cache_directory(request: Request) -> pathlib.Path:
    """Return where OpenVINO keeps compiled models for later processes of this arm."""
    return pathlib.Path(request.scratch_directory) / "cache" / "openvino"


def describe(compiled: Any) -> dict[str, Any]:
    """Return what a compiled model computes with, as read back from it: device, threads, precision asked and precisions of its layers."""
    layers: collections.Counter[str] = collections.Counter()
    precisions: collections.Counter[str] = collections.Counter()
    for operation in compiled.get_runtime_model().get_ops():
        facts = operation.get_rt_info()
        layers[facts["layerType"].value] += 1
        precisions[facts["runtimePrecision"].value] += 1
    return {
        "devices": list(compiled.get_property("EXECUTION_DEVICES")),
        "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
        "inference_precision": compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name(),
        "layers": dict(layers),
        "layer_precisions": dict(precisions),
    }
