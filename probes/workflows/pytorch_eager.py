"""Eager PyTorch, the baseline; on a GPU also captured as a CUDA graph."""

from __future__ import annotations

from typing import Any

import torch

from probes.adapter import GENERATE, Engagement, Program, Request
from probes.stacks import cuda_graphs, pytorch
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request

versions = pytorch.versions
settings = pytorch.apply_settings


def open_subject(request: Request) -> Any:
    subject = by_request.open_subject(request)
    if "torch.compile" in subject.adjusted:
        torch.compiler.set_stance("force_eager")
    return subject


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Return the program of `subject`: a `CausalLm` for text, else a `TorchSubject`."""
    if request.task == GENERATE:
        from probes.subjects.transformers_generate import TextGeneration

        return TextGeneration(subject.model, request)
    program = pytorch.laid_out(TorchProgram(subject, subject.module), request)
    return cuda_graphs.capture(program, inputs) if request.options.get("cuda_graph") else program


def engagement(program: Program, device_inputs: Any) -> Engagement:
    if isinstance(program, CapturedProgram):
        return cuda_graphs.engagement(program, device_inputs)
    return Engagement(1.0, "eager PyTorch has no compiled path to fall back from")


def integration(subject: Any, request: Request) -> str:
    if request.task == GENERATE:
        call = pytorch.each_call(pytorch.generate_call(request), result="tokens")
        return f"import torch\n\n{call}"
    call = f"model({pytorch.arguments(request)})"
    captured = request.options.get("cuda_graph")
    run = cuda_graphs.integration(call) if captured else pytorch.each_call(call)
    return f"import torch\n\n{pytorch.setting_lines(request)}{run}"
