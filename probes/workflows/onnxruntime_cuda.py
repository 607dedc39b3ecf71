"""ONNX Runtime's CUDA provider, fed from the host or with tensors bound on the GPU."""

from __future__ import annotations

from typing import Any

from probes import onnxruntime_stack, torch_stack
from probes.onnxruntime_stack import CUDA, CUDA_OPTIONS, SessionProgram
from probes.protocol import Request
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.opening import TorchSubject

versions = onnxruntime_stack.versions
open_subject = onnxruntime_stack.open_subject
engagement = onnxruntime_stack.engagement
synchronise = torch_stack.synchronise


def settings(request: Request) -> dict[str, str]:
    """Return the session's settings beside those of the exporting PyTorch."""
    return {**onnxruntime_stack.settings(request), **CUDA_OPTIONS}


def build(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request) -> SessionProgram:
    """Export and open a session on the GPU."""
    return onnxruntime_stack.build_on_gpu(subject, inputs, request, [(CUDA, CUDA_OPTIONS)])


def integration(request: Request) -> str:
    """Return the lines that export, open the session and run it."""
    return onnxruntime_stack.integration(request, CUDA)
