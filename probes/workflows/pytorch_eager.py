"""PyTorch as it is: the baseline that every other workflow is compared with.

On a GPU also captured as a CUDA graph.
"""

from __future__ import annotations

from typing import Any

from probes import protocol
from probes.adapter import Program, UnsupportedError
from probes.protocol import Engagement, Request
from probes.stacks import cuda_graphs, pytorch
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_task import open_by_task

TASKS = (protocol.FORWARD, protocol.GENERATE)

settings = pytorch.apply_settings
open_subject = open_by_task
synchronise = pytorch.synchronise


def versions() -> dict[str, str]:
    """Return torch's version."""
    return pytorch.versions()


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Return the module itself, a call of it captured for these shapes, or its `generate` with a cache that grows."""
    captured = request.options.get("cuda_graph")
    if request.task == protocol.GENERATE:
        from probes.subjects.transformers_generate import TextGeneration  # noqa: PLC0415 - transformers takes seconds to import

        if captured:
            message = "a cache that grows cannot be captured as a CUDA graph; torch-compile-inductor-static-cache has arms whose step is"
            raise UnsupportedError(message)
        return TextGeneration(subject.model, request)
    program = TorchProgram(subject, subject.module)
    return cuda_graphs.capture(program, inputs) if captured else program


def engagement(program: Program, fed: Any) -> Engagement:
    """Return a full share without a graph: there is no compiled path to leave."""
    if isinstance(program, CapturedProgram):
        return cuda_graphs.engagement(program, fed)
    return Engagement(1.0, "eager PyTorch has no compiled path to fall back from", {})


def integration(request: Request) -> str:
    """Return the lines that run the module, or generate with it."""
    if request.task == protocol.GENERATE:
        return f"""\
import torch

with torch.inference_mode():
    tokens = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens={request.output_tokens})
"""
    if request.options.get("cuda_graph"):
        return f"import torch\n\n{cuda_graphs.integration('model')}"
    return """\
import torch

with torch.inference_mode():
    output = model(*inputs)
"""
