"""ONNX Runtime on the CPU, with host feeding or with IO binding."""

from __future__ import annotations

from typing import Any

from probes import onnxruntime_stack
from probes.onnxruntime_stack import SessionProgram
from probes.protocol import Request
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.opening import TorchSubject

versions = onnxruntime_stack.versions
settings = onnxruntime_stack.settings
open_subject = onnxruntime_stack.open_subject
engagement = onnxruntime_stack.engagement


def build(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request) -> SessionProgram:
    """Export and open a session on the CPU."""
    return onnxruntime_stack.build(subject, inputs, request, onnxruntime_stack.CPU)


def synchronise() -> None:
    """Return at once: a run on the CPU has ended when it returns."""


def integration(request: Request) -> str:
    """Return the lines that export, open the session and run it."""
    return onnxruntime_stack.integration(request, onnxruntime_stack.CPU)
