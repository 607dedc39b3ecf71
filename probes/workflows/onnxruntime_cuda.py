"""ONNX Runtime's CUDA provider, fed from the host or with tensors bound on the GPU."""

from __future__ import annotations

from typing import Any

from probes.protocol import Request
from probes.stacks import onnxruntime_session, pytorch
from probes.stacks.onnxruntime_session import CUDA, CUDA_OPTIONS, SessionProgram
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.torch_subject import TorchSubject
from probes.wire.events import StartLines

versions = onnxruntime_session.versions
open_subject = onnxruntime_session.open_subject
engagement = onnxruntime_session.engagement
racing_operators = onnxruntime_session.racing_operators
synchronise = pytorch.synchronise


def settings(request: Request) -> dict[str, str]:
    """Return the settings of the session, the provider and the exporting PyTorch."""
    return {**onnxruntime_session.settings(request), **CUDA_OPTIONS}


def build(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> SessionProgram:
    """Export and open a session on the GPU."""
    return onnxruntime_session.build_on_gpu(subject, inputs, request, [(CUDA, CUDA_OPTIONS)])


def integration(request: Request) -> str:
    return onnxruntime_session.integration(request, CUDA)


def starts(subject: TorchSubject | OnnxSubject, request: Request) -> dict[str, StartLines]:
    return onnxruntime_session.starts(request, CUDA)
