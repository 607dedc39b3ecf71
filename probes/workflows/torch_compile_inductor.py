"""`torch.compile` with its default backend, Inductor."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._dynamo.utils import counters

from probes import protocol
from probes.adapter import Program
from probes.protocol import Engagement, Request
from probes.stacks import pytorch, pytorch_kernels
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_task import open_by_task

TASKS = (protocol.FORWARD, protocol.GENERATE)

settings = pytorch.apply_settings
open_subject = open_by_task
synchronise = pytorch.synchronise

#: Names that Dynamo and Inductor give to the profiler for a call into compiled code.
COMPILED_REGIONS = (pytorch.COMPILED_REGION, "## Call CompiledFxGraph")
#: Modes that capture what they compile as CUDA graphs, and say so nowhere when they cannot.
CAPTURING_MODES = {"reduce-overhead", "max-autotune"}


def versions() -> dict[str, str]:
    """Return the versions of torch and, on a GPU, of the compiler beneath it."""
    return pytorch.versions(*(["triton"] if torch.version.cuda else []))


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Compile for these shapes alone: a second batch size must not turn the first into a dynamic graph.

    Of a language model, compile the module and then generate with it, as the paper did:
    `torch-compile-inductor-static-cache` is the way that its library offers since.
    """
    if request.task == protocol.GENERATE:
        from probes.subjects.transformers_generate import TextGeneration  # noqa: PLC0415 - transformers takes seconds to import

        return TextGeneration(
            torch.compile(subject.model, mode=request.options.get("mode")), request
        )
    options = request.options
    compiled = torch.compile(
        subject.module, dynamic=options.get("dynamic", False), mode=options.get("mode")
    )
    program = CompiledProgram(
        subject,
        compiled,
        captures=request.device == "cuda" and options.get("mode") in CAPTURING_MODES,
    )
    program(program.feed(inputs))
    return program


@dataclasses.dataclass(frozen=True)
class CompiledProgram(TorchProgram):
    """A compiled module, and whether its mode promises CUDA graphs."""

    captures: bool


def engagement(program: Any, fed: Any) -> Engagement:
    """Count operators that ran outside compiled regions against those that Dynamo captured, and the graphs where some are promised."""
    outside, regions = pytorch.operators_outside(lambda: program(fed), COMPILED_REGIONS)
    captured = (
        counters["stats"]["calls_captured"] // max(counters["stats"]["unique_graphs"], 1)
        if regions
        else 0
    )
    breaks = {str(reason): int(count) for reason, count in counters["graph_break"].items()}
    share = captured / (captured + outside) if captured + outside else 0.0
    proof = (
        f"{regions} compiled regions a call hold {captured} operators, {outside} ran outside them"
        if regions
        else f"no compiled region ran: {next(iter(breaks), 'Dynamo captured nothing')}"
    )
    facts = {
        "graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": breaks,
        "operators_outside": outside,
    }
    engaged = Engagement(share, proof, facts)
    return (
        with_graphs(engaged, pytorch_kernels.watch(lambda: program(fed)))
        if regions and isinstance(program, CompiledProgram) and program.captures
        else engaged
    )


def with_graphs(engaged: Engagement, started: pytorch_kernels.Started) -> Engagement:
    """Add what was captured; Inductor leaves graphs out without a word, and then the mode is not what was asked for."""
    skips = int(counters["inductor"]["cudagraph_skips"])
    facts = {**engaged.facts, **pytorch_kernels.facts(started), "cudagraph_skips": skips}
    if not started.graphs:
        return Engagement(
            0.0, f"Inductor captured no CUDA graph; it counts {skips} reasons not to", facts
        )
    proof = f"{engaged.proof}; {started.graphs} captured graphs start them, {started.single} kernels come one by one"
    return Engagement(engaged.share, proof, facts)


def integration(request: Request) -> str:
    """Return the lines that compile and run the module."""
    mode = request.options.get("mode")
    dynamic = request.options.get("dynamic", False)
    if request.task == protocol.GENERATE:
        return f"""\
import torch

compiled = torch.compile(model{f', mode="{mode}"' if mode else ""})
with torch.inference_mode():
    tokens = compiled.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens={request.output_tokens})
"""
    return f"""\
import torch

compiled = torch.compile(model, dynamic={dynamic}{f', mode="{mode}"' if mode else ""})
with torch.inference_mode():
    output = compiled(*inputs)  # the first call compiles
"""
