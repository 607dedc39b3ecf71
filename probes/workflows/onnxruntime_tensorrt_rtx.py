"""ONNX Runtime with the plug-in provider for TensorRT for RTX."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort
import onnxruntime_ep_nv_tensorrt_rtx as plugin

from probes.adapter import Request, UnsupportedError
from probes.stacks import onnx_export, onnxruntime_session, pytorch
from probes.stacks.onnxruntime_feeding import SessionProgram
from probes.stacks.onnxruntime_session import Model

settings = onnxruntime_session.tensorrt_settings
open_subject = onnxruntime_session.open_subject
engagement = onnxruntime_session.engagement
racing_operators = onnxruntime_session.racing_operators
synchronise = pytorch.synchronise


def versions() -> dict[str, str]:
    ort.register_execution_provider_library(plugin.get_ep_name(), plugin.get_library_path())
    return {
        **onnxruntime_session.versions(),
        **pytorch.versions("onnxruntime-ep-nv-tensorrt-rtx-cu13"),
    }


def build(subject: Model, inputs: list[Any], request: Request) -> SessionProgram:
    """Export for these shapes and open a session on the plug-in's device.

    Raise `UnsupportedError` if the plug-in offers no device.
    """
    name = plugin.get_ep_name()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    if not devices:
        message = (
            f"{name} offers no device here: "
            "it takes only GPUs of compute capability 8.6, 8.9, and 12.0 or later"
        )
        raise UnsupportedError(message)
    options = onnxruntime_session.session_options(request)
    options.add_provider_for_devices(
        devices[:1], {"nv_runtime_cache_path": request.scratch_directory}
    )
    session = ort.InferenceSession(onnx_export.for_shapes(subject, inputs, request), options)
    return onnxruntime_session.gpu_program(session, name, request)


def integration(request: Request) -> str:
    opening = """\
import onnxruntime_ep_nv_tensorrt_rtx as plugin

onnxruntime.register_execution_provider_library(plugin.get_ep_name(), plugin.get_library_path())
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == plugin.get_ep_name()]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {})
session = onnxruntime.InferenceSession(FILE, options)"""  # noqa: E501 - the lines are counted, so they are not wrapped
    return onnxruntime_session.integration(request, "NvTensorRTRTXExecutionProvider", opening)
