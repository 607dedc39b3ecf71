"""PyTorch as it is: the baseline that every other workflow is compared with. On a GPU also captured as a CUDA graph."""

from __future__ import annotations

from typing import Any

from probes import cuda_graphs, torch_stack
from probes.cuda_graphs import CapturedProgram
from probes.protocol import Engagement, Request
from probes.subjects.opening import TorchSubject, open_torch_subject
from probes.torch_stack import TorchProgram

settings = torch_stack.apply_settings
open_subject = open_torch_subject
synchronise = torch_stack.synchronise


def versions() -> dict[str, str]:
    """Return torch's version."""
    return torch_stack.versions()


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram | CapturedProgram:
    """Return the module itself, or a call of it captured for these shapes."""
    program = TorchProgram(subject, subject.module)
    return cuda_graphs.capture(program, inputs) if request.options.get("cuda_graph") else program


def engagement(program: TorchProgram | CapturedProgram, fed: Any) -> Engagement:
    """Return a full share without a graph: there is no compiled path to leave."""
    if isinstance(program, CapturedProgram):
        return cuda_graphs.engagement(program, fed)
    return Engagement(1.0, "eager PyTorch has no compiled path to fall back from", {})


def recipe(request: Request) -> str:
    """Return the lines that run the module."""
    if request.options.get("cuda_graph"):
        return f"import torch\n\n{cuda_graphs.recipe('model')}"
    return """\
import torch

with torch.inference_mode():
    output = model(*inputs)
"""
