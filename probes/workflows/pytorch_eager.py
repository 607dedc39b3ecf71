"""PyTorch as it is: the baseline that every other workflow is compared with."""

from __future__ import annotations

from typing import Any

from probes import protocol, torch_stack
from probes.adapter import Program
from probes.protocol import Engagement, Request
from probes.subjects.by_task import open_by_task
from probes.torch_stack import TorchProgram

TASKS = (protocol.FORWARD, protocol.GENERATE)

settings = torch_stack.apply_settings
open_subject = open_by_task
synchronise = torch_stack.synchronise


def versions() -> dict[str, str]:
    """Return torch's version."""
    return torch_stack.versions()


def build(subject: Any, inputs: list[Any], request: Request) -> Program:  # noqa: ARG001 - nothing to compile
    """Return the module itself, or its `generate` with a cache that grows."""
    if request.task == protocol.GENERATE:
        from probes.generate_stack import TextGeneration  # noqa: PLC0415 - transformers takes seconds to import

        return TextGeneration(subject.model, request)
    return TorchProgram(subject, subject.module)


def engagement(program: Program, fed: Any) -> Engagement:  # noqa: ARG001
    """Return a full share: there is no compiled path to leave."""
    return Engagement(1.0, "eager PyTorch has no compiled path to fall back from", {})


def recipe(request: Request) -> str:
    """Return the lines that run the module, or generate with it."""
    if request.task == protocol.GENERATE:
        return f"""\
import torch

with torch.inference_mode():
    tokens = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens={request.output_tokens})
"""
    return """\
import torch

with torch.inference_mode():
    output = model(*inputs)
"""
