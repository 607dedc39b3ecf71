"""`torch.compile` with its default backend, Inductor."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.utils import counters

from probes import torch_stack
from probes.protocol import Engagement, Request
from probes.subjects.opening import TorchSubject, open_torch_subject
from probes.torch_stack import TorchProgram

settings = torch_stack.apply_settings
open_subject = open_torch_subject
synchronise = torch_stack.synchronise

#: Names that Dynamo gives to the profiler for a call into compiled code.
COMPILED_REGIONS = ("Torch-Compiled Region", "## Call CompiledFxGraph")


def versions() -> dict[str, str]:
    """Return the versions of torch and, on a GPU, of the compiler beneath it."""
    return torch_stack.versions(*(["triton"] if torch.version.cuda else []))


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    """Compile for these shapes alone: a second batch size must not turn the first into a dynamic graph."""
    compiled = torch.compile(subject.module, dynamic=False, mode=request.options.get("mode"))
    program = TorchProgram(subject, compiled)
    program(program.feed(inputs))
    return program


def engagement(program: TorchProgram, fed: Any) -> Engagement:
    """Count operators that ran outside compiled regions against those that Dynamo captured."""
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
    return Engagement(share, proof, facts)
