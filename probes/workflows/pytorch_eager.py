"""PyTorch as it is: the baseline that every other workflow is compared with."""

from __future__ import annotations

from typing import Any

from probes import torch_stack
from probes.protocol import Engagement, Request
from probes.subjects.opening import TorchSubject, open_torch_subject
from probes.torch_stack import TorchProgram

settings = torch_stack.apply_settings
open_subject = open_torch_subject
synchronise = torch_stack.synchronise


def versions() -> dict[str, str]:
    """Return torch's version."""
    return torch_stack.versions()


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:  # noqa: ARG001 - nothing to compile
    """Return the module itself."""
    return TorchProgram(subject, subject.module)


def engagement(program: TorchProgram, fed: Any) -> Engagement:  # noqa: ARG001
    """Return a full share: there is no compiled path to leave."""
    return Engagement(1.0, "eager PyTorch has no compiled path to fall back from", {})
