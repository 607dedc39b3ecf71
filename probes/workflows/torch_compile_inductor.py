"""`torch.compile` with its default backend, Inductor."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._dynamo.utils import counters

from probes import kernels, torch_stack
from probes.protocol import Engagement, Request
from probes.subjects.opening import TorchSubject, open_torch_subject
from probes.torch_stack import TorchProgram

settings = torch_stack.apply_settings
open_subject = open_torch_subject
synchronise = torch_stack.synchronise

#: Names that Dynamo gives to the profiler for a call into compiled code.
COMPILED_REGIONS = ("Torch-Compiled Region", "## Call CompiledFxGraph")
#: Modes that capture what they compile as CUDA graphs, and say so nowhere when they cannot.
CAPTURING_MODES = {"reduce-overhead", "max-autotune"}


def versions() -> dict[str, str]:
    """Return the versions of torch and, on a GPU, of the compiler beneath it."""
    return torch_stack.versions(*(["triton"] if torch.version.cuda else []))


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    """Compile, unless asked otherwise for these shapes alone: a second batch size must not turn the first into a dynamic graph."""
    options = request.options
    compiled = torch.compile(subject.module, dynamic=options.get("dynamic", False), mode=options.get("mode"))
    program = CompiledProgram(subject, compiled, captures=request.device == "cuda" and options.get("mode") in CAPTURING_MODES)
    program(program.feed(inputs))
    return program


@dataclasses.dataclass(frozen=True)
class CompiledProgram(TorchProgram):
    """A compiled module, and whether its mode promises CUDA graphs."""

    captures: bool


def engagement(program: CompiledProgram, fed: Any) -> Engagement:
    """Count operators that ran outside compiled regions against those that Dynamo captured, and the graphs where some are promised."""
    outside, regions = torch_stack.operators_outside(lambda: program(fed), COMPILED_REGIONS)
    captured = counters["stats"]["calls_captured"] // max(counters["stats"]["unique_graphs"], 1) if regions else 0
    breaks = {str(reason): int(count) for reason, count in counters["graph_break"].items()}
    share = captured / (captured + outside) if captured + outside else 0.0
    proof = (
        f"{regions} compiled regions a call hold {captured} operators, {outside} ran outside them"
        if regions
        else f"no compiled region ran: {next(iter(breaks), 'Dynamo captured nothing')}"
    )
    facts = {"graphs": int(counters["stats"]["unique_graphs"]), "graph_breaks": breaks, "operators_outside": outside}
    engaged = Engagement(share, proof, facts)
    return with_graphs(engaged, kernels.watch(lambda: program(fed))) if program.captures and regions else engaged


def with_graphs(engaged: Engagement, started: kernels.Started) -> Engagement:
    """Add what was captured; Inductor leaves graphs out without a word, and then the mode is not what was asked for."""
    skips = int(counters["inductor"]["cudagraph_skips"])
    facts = {**engaged.facts, **kernels.facts(started), "cudagraph_skips": skips}
    if not started.graphs:
        return Engagement(0.0, f"Inductor captured no CUDA graph; it counts {skips} reasons not to", facts)
    proof = f"{engaged.proof}; {started.graphs} captured graphs start them, {started.single} kernels come one by one"
    return Engagement(engaged.share, proof, facts)


def recipe(request: Request) -> str:
    """Return the lines that compile and run the module."""
    mode = request.options.get("mode")
    dynamic = request.options.get("dynamic", False)
    return f"""\
import torch

compiled = torch.compile(model, dynamic={dynamic}{f', mode="{mode}"' if mode else ""})
with torch.inference_mode():
    output = compiled(*inputs)  # the first call compiles
"""
