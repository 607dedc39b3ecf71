"""ONNX Runtime on the CPU, with host feeding or with IO binding."""

from __future__ import annotations

from typing import Any

from probes import onnxruntime_stack
from probes.onnxruntime_stack import HostFeeding, IoBinding
from probes.protocol import Request
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.opening import TorchSubject

versions = onnxruntime_stack.versions
settings = onnxruntime_stack.settings
open_subject = onnxruntime_stack.open_subject
engagement = onnxruntime_stack.engagement

PROVIDER = "CPUExecutionProvider"


def build(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request) -> HostFeeding | IoBinding:
    """Export and open a session on the CPU."""
    return onnxruntime_stack.build(subject, inputs, request, PROVIDER, "cpu")


def synchronise() -> None:
    """Return at once: a run on the CPU has ended when it returns."""
