"""`generate()` of transformers with a cache of fixed size, whose decode step Inductor compiles."""

from __future__ import annotations

import functools
from typing import Any

from probes.adapter import Engagement, Request, StartLines, TextProgram
from probes.stacks import decode_step, dynamo, pytorch
from probes.subjects import transformers_generate
from probes.subjects.causal_lm import CausalLm, open_causal_lm

versions = functools.partial(pytorch.versions, "transformers", "triton")
settings = pytorch.apply_settings
open_subject = open_causal_lm


def build(subject: CausalLm, inputs: list[Any], request: Request) -> TextProgram:
    if request.options.get("loop"):
        program: TextProgram = decode_step.StepGeneration(
            transformers_generate.copy_with_same_weights(subject.model), request
        )
    else:
        program = transformers_generate.with_fixed_cache(subject.model, request)
    program(program.feed(inputs))
    return program


def engagement(program: TextProgram, device_inputs: Any) -> Engagement:
    passes = program.request.output_tokens
    if isinstance(program, decode_step.StepGeneration) and program.replays is not None:
        before = program.replays
        program(device_inputs)
        steps, how = program.replays - before, "replayed a captured CUDA graph"
    else:
        _, steps = pytorch.count_operators_outside(
            lambda: program(device_inputs), (pytorch.COMPILED_REGION,)
        )
        how = "ran compiled"
    proof = f"{steps} of {passes} passes {how}; the prompt's pass stays eager"
    return Engagement(steps / passes, proof, {"graph_breaks": dynamo.graph_breaks()})


def integration(subject: Any, request: Request) -> str:
    if request.options.get("loop"):
        return decode_step.integration(request)
    return decode_step.fixed_cache_lines(request)


def starts(subject: CausalLm, request: Request) -> dict[str, StartLines]:
    if request.options.get("loop") == "cuda-graph":
        return {}
    return dynamo.with_cache_artifacts(integration(subject, request))
