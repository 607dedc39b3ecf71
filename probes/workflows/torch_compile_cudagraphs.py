"""`torch.compile` with the backend that captures PyTorch's own kernels as CUDA graphs and compiles nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.utils import counters

from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.stacks import pytorch, pytorch_kernels
from probes.stacks.pytorch import TorchProgram
from probes.subjects.opening import TorchSubject, open_torch_subject

settings = pytorch.apply_settings
open_subject = open_torch_subject
synchronise = pytorch.synchronise

#: The first call warms up, the second captures, from the third on the graph is replayed.
CALLS_UNTIL_REPLAY = 2


def versions() -> dict[str, str]:
    """Return torch's version."""
    return pytorch.versions()


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    """Call until the graph for these shapes is captured."""
    if request.device != "cuda":
        message = "CUDA graphs exist on NVIDIA GPUs only"
        raise UnsupportedError(message)
    program = TorchProgram(
        subject, torch.compile(subject.module, dynamic=False, backend="cudagraphs")
    )
    fed = program.feed(inputs)
    for _ in range(CALLS_UNTIL_REPLAY):
        program(fed)
    return program


def engagement(program: TorchProgram, fed: Any) -> Engagement:
    """Return the share of the kernels that captured graphs start, with Dynamo's reasons where it broke the model apart."""
    engaged = pytorch_kernels.engagement_of_graphs(pytorch_kernels.watch(lambda: program(fed)))
    breaks = {str(reason): int(count) for reason, count in counters["graph_break"].items()}
    return Engagement(engaged.share, engaged.proof, {**engaged.facts, "graph_breaks": breaks})


def integration(request: Request) -> str:  # noqa: ARG001 - the same for every model
    """Return the lines that capture and run the module."""
    return """\
import torch

compiled = torch.compile(model, dynamic=False, backend="cudagraphs")
with torch.inference_mode():
    output = compiled(*inputs)  # the first call warms up, the second captures
"""
