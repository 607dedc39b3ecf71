"""`torch.compile` with its default backend, Inductor."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch._dynamo.utils import counters

from probes.adapter import GENERATE, Engagement, Program, Request, StartLines
from probes.stacks import cuda_graphs, dynamo, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request

versions = functools.partial(pytorch.versions, "triton")
settings = pytorch.apply_settings
open_subject = by_request.open_subject
import_compiler = functools.partial(importlib.import_module, "torch._inductor.compile_fx")

#: Modes that capture compiled code as CUDA graphs; they give no error when they cannot.
CAPTURING_MODES = {"reduce-overhead", "max-autotune"}


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Compile as users do: PyTorch decides when shapes become dynamic, unless an option says so.

    Dynamo keeps compiled code by the module's code, so all batch sizes share it as they do in a
    user's process: the first size is compiled for its shape, the second one makes the batch
    dynamic, and further sizes are served by that code.

    A language model is compiled in place: `torch.compile(model)` passes `generate` on to the
    original model, which would never call the compiled one. The workflow
    `torch-compile-inductor-static-cache` compiles a decode step of fixed shapes instead. `subject`
    is a `CausalLm` for text, else a `TorchSubject`.
    """
    if request.task == GENERATE:
        from probes.subjects.transformers_generate import TextGeneration

        subject.model.compile(dynamic=request.options.get("dynamic"))
        return TextGeneration(subject.model, request)
    options = request.options
    compiled = torch.compile(
        subject.module, dynamic=options.get("dynamic"), mode=options.get("mode")
    )
    captures = request.device == "cuda" and options.get("mode") in CAPTURING_MODES
    program = pytorch.laid_out(TorchProgram(subject, compiled, captures), request)
    dynamo.call_first(program, inputs)
    return program


def engagement(program: Program, device_inputs: Any) -> Engagement:
    """Return the share of operators in compiled graphs; 0 if promised CUDA graphs are missing."""
    call = functools.partial(program, device_inputs)
    outside, regions = pytorch.count_operators_outside(call, (pytorch.GRAPH_REGION,))
    if not regions:
        outside, regions = pytorch.count_operators_outside(call, (pytorch.COMPILED_REGION,))
    stats = counters["stats"]
    captured = stats["calls_captured"] // max(stats["unique_graphs"], 1) if regions else 0
    breaks = dynamo.graph_breaks()
    inside = captured * regions
    share = inside / (inside + outside) if inside + outside else 0.0
    held = dynamo.count(captured, "operator")
    ran = f"{regions} compiled regions ran in a call; their graphs hold {held} on average"
    if regions == 1:
        ran = f"1 compiled region ran in a call; its graph holds {held}"
    more = f" and {len(breaks) - 1} more" if len(breaks) > 1 else ""
    first = f"; the graph breaks at {next(iter(breaks))}{more}" if breaks else ""
    proof = (
        f"{ran}, and {dynamo.count(outside, 'operator')} ran outside them{first}"
        # Dynamo also opens a region for code from which it captured no operator.
        if regions and stats["calls_captured"]
        else dynamo.with_cause("no compiled region ran")
    )
    engaged = Engagement(share, proof, {"graph_breaks": breaks})
    if regions and isinstance(program, TorchProgram) and program.captures:
        launches = cuda_graphs.count_launches(call)
        skips = int(counters["inductor"]["cudagraph_skips"])
        missing = f"Inductor captured no CUDA graph; it counts {skips} skipped graphs"
        return cuda_graphs.with_graphs(engaged, launches, missing)
    return engaged


def starts(subject: Any, request: Request) -> dict[str, StartLines]:
    first = f"import torch\n\n{pytorch.setting_lines(request)}"
    arguments = _arguments(request)
    generates = request.task == GENERATE
    return {
        **dynamo.with_cache_artifacts(integration(subject, request)),
        **({} if generates else dynamo.with_compiled_function(first, arguments)),
        **dynamo.with_compiled_blocks(
            subject.model if generates else subject.module,
            first,
            arguments,
            _call_lines(request, "model"),
        ),
    }


def _call_lines(request: Request, name: str) -> str:
    if request.task == GENERATE:
        return pytorch.each_call(pytorch.generate_call(request), result="tokens")
    return pytorch.each_call(f"{name}({pytorch.arguments(request)})  # the first call compiles")


def _arguments(request: Request) -> str:
    return "".join(
        f", {name}={value!r}"
        for name in ("dynamic", "mode")
        if (value := request.options.get(name)) is not None
    ).replace("'", '"')


def integration(subject: Any, request: Request) -> str:
    arguments = _arguments(request)
    if request.task == GENERATE:
        compile_lines = f"model.compile({arguments.removeprefix(', ')})\n"
        return f"import torch\n\n{compile_lines}{_call_lines(request, 'model')}"
    return f"""\
import torch

{pytorch.setting_lines(request)}compiled = torch.compile(model{arguments})
{_call_lines(request, "compiled")}"""
