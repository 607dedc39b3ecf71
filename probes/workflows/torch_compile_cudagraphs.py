"""`torch.compile` with the backend `cudagraphs`: capture PyTorch's own kernels, compile nothing."""

from __future__ import annotations

from typing import Any

import torch

from probes.adapter import UnsupportedError
from probes.protocol import Request
from probes.stacks import cuda_graphs, graph_breaks, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import open_torch_subject
from probes.subjects.torch_subject import TorchSubject
from probes.wire.events import Engagement

settings = pytorch.apply_settings
open_subject = open_torch_subject
synchronise = pytorch.synchronise

#: The first call warms up and the second captures; later calls replay the graph.
CALLS_UNTIL_REPLAY = 2


def versions() -> dict[str, str]:
    return pytorch.versions()


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    """Compile, and call until the graph for these shapes is captured."""
    if request.device != "cuda":
        message = "CUDA graphs exist on NVIDIA GPUs only"
        raise UnsupportedError(message)
    program = TorchProgram(
        subject, torch.compile(subject.module, dynamic=False, backend="cudagraphs")
    )
    device_inputs = program.feed(inputs)
    for _ in range(CALLS_UNTIL_REPLAY):
        program(device_inputs)
    return program


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    """Return the share of the kernels that captured graphs start, and Dynamo's graph breaks."""
    launches = cuda_graphs.count_launches(lambda: program(device_inputs))
    engaged = cuda_graphs.graph_engagement(launches)
    breaks = graph_breaks.graph_breaks()
    proof = engaged.proof
    if not launches.graph_launches:
        proof = graph_breaks.with_cause(proof)
    return Engagement(engaged.share, proof, {**engaged.facts, "graph_breaks": breaks})


def integration(request: Request) -> str:
    return """\
import torch

compiled = torch.compile(model, dynamic=False, backend="cudagraphs")
# Each call:
with torch.inference_mode():
    output = compiled(*inputs)  # the first call warms up, the second captures
"""
