"""torchao: quantise the linear layers, then compile as Inductor's workflows do."""

from __future__ import annotations

from typing import Any

import torch

from probes.adapter import FORWARD, GENERATE, Engagement, Program, Request, StartLines
from probes.stacks import dynamo, pytorch, torchao_weights
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import open_by_task

TASKS = (FORWARD, GENERATE)

settings = pytorch.apply_settings
open_subject = open_by_task
synchronise = pytorch.synchronise

#: Names of the profiler regions that Dynamo and Inductor open around a call into compiled code.
COMPILED_REGIONS = (pytorch.COMPILED_REGION, pytorch.GRAPH_REGION)


def versions() -> dict[str, str]:
    return pytorch.versions("torchao", *(["triton"] if torch.version.cuda else []))


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Quantise the weights once for all batch sizes, and compile.

    A language model generates with a cache of fixed size, whose decode step transformers compiles.
    `subject` is a `CausalLm` for text, else a `TorchSubject`.
    """
    if request.task == GENERATE:
        import transformers  # noqa: PLC0415 - takes seconds, and modules do not need it

        from probes.subjects import transformers_generate  # noqa: PLC0415 - as above

        torchao_weights.quantise(subject.model, request)
        compile_config = transformers.CompileConfig(dynamic=False)
        program = transformers_generate.with_fixed_cache(subject.model, request, compile_config)
        program(program.feed(inputs))
        return program
    torchao_weights.quantise(subject.module, request)
    return pytorch.compile_module(subject, inputs)


def engagement(program: Any, device_inputs: Any) -> Engagement:
    """Return the share of the weights of linear layers that are quantised and run compiled."""
    outside, regions = pytorch.count_operators_outside(
        lambda: program(device_inputs), COMPILED_REGIONS
    )
    ran = f"{dynamo.count(regions, 'compiled region')} ran"
    if isinstance(program, TorchProgram):
        share = 1.0 if regions else 0.0
        compiled = f"{ran} in a call, {dynamo.count(outside, 'operator')} outside them"
        return torchao_weights.engagement(program.subject.module, share, compiled)
    passes = program.request.output_tokens
    compiled = (
        f"{ran} in {passes} {'pass' if passes == 1 else 'passes'}; the prompt's pass stays eager"
    )
    return torchao_weights.engagement(program.model, min(regions / passes, 1.0), compiled)


def integration(request: Request) -> str:
    names = ", ".join(torchao_weights.imported_names(request))
    imports = f"from torchao.quantization import {names}"
    quantise = f"quantize_(model, {torchao_weights.expression(request)})"
    if request.task == GENERATE:
        from probes.stacks import decode_step  # noqa: PLC0415 - imports transformers

        return decode_step.fixed_cache_lines(request, imports=[imports], preparation=[quantise])
    return f"""\
import torch
{imports}

{quantise}
compiled = torch.compile(model)
{pytorch.each_call("compiled(*inputs)  # the first call compiles")}"""


def starts(subject: Any, request: Request) -> dict[str, StartLines]:
    return dynamo.with_cache_artifacts(integration(request))
