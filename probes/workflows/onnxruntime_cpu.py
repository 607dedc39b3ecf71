"""ONNX Runtime on the CPU, fed with host arrays or with IO binding."""

from __future__ import annotations

from typing import Any

from probes.protocol import Request
from probes.stacks import onnxruntime_session
from probes.stacks.onnxruntime_session import SessionProgram
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.torch_subject import TorchSubject
from probes.wire.events import StartLines

versions = onnxruntime_session.versions
settings = onnxruntime_session.settings
open_subject = onnxruntime_session.open_subject
engagement = onnxruntime_session.engagement
racing_operators = onnxruntime_session.racing_operators


def build(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request
) -> SessionProgram:
    """Export for these shapes and open a session on the CPU."""
    return onnxruntime_session.build(subject, inputs, request, onnxruntime_session.CPU)


def synchronise() -> None:
    """Return at once: a run on the CPU has ended when it returns."""


def integration(request: Request) -> str:
    return onnxruntime_session.integration(request, onnxruntime_session.CPU)


def starts(subject: TorchSubject | OnnxSubject, request: Request) -> dict[str, StartLines]:
    return onnxruntime_session.starts(request, onnxruntime_session.CPU)
