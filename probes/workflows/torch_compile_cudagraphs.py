"""`torch.compile` with the backend `cudagraphs`: capture PyTorch's own kernels, compile nothing."""

from __future__ import annotations

from typing import Any

from probes.adapter import Engagement, Request
from probes.stacks import cuda_graphs, dynamo, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = pytorch.versions
settings = pytorch.apply_settings
open_subject = open_torch_subject


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    program = dynamo.compile_module(subject, inputs, dynamic=False, backend="cudagraphs")
    program(program.feed(inputs))  # The first call warms up, the second captures.
    return program


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    launches = cuda_graphs.count_launches(lambda: program(device_inputs))
    engaged = cuda_graphs.graph_engagement(launches)
    proof = engaged.proof if launches.graph_launches else dynamo.with_cause(engaged.proof)
    return Engagement(engaged.share, proof, {"graph_breaks": dynamo.graph_breaks()})


def integration(subject: Any, request: Request) -> str:
    call = pytorch.each_call("compiled(*inputs)  # the first call warms up, the second captures")
    return f"""\
import torch

compiled = torch.compile(model, dynamic=False, backend="cudagraphs")
{call}"""
