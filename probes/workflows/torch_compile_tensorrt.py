"""`torch.compile` with Torch-TensorRT's backend, which builds engines at the first call."""

from __future__ import annotations

from typing import Any

from probes.adapter import GENERATE, Engagement, Program, Request
from probes.stacks import dynamo, pytorch, torch_tensorrt_engines
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request

#: The update of a cache of fixed size stays in PyTorch: the converter of 2.11 fails (`Cannot
#: broadcast (1, 2, 1, 64) to (1, 1, 2, 64)`).
IN_PYTORCH = {"torch_executed_ops": ["torch.ops.aten.index_put.default"]}

versions = torch_tensorrt_engines.versions
settings = torch_tensorrt_engines.settings
open_subject = by_request.open_subject


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Compile for these shapes; `subject` is a `CausalLm` for text, else a `TorchSubject`."""
    options = {
        **torch_tensorrt_engines.compile_options(request),
        "pass_through_build_failures": True,  # instead of running eager code
    }
    if request.task != GENERATE:
        return dynamo.compile_module(
            subject, inputs, backend="tensorrt", dynamic=False, options=options
        )
    from probes.subjects import transformers_generate

    if request.options.get("cache") == "static":
        # transformers passes on all fields, and `torch.compile` takes either a mode or options.
        fixed = {"backend": "tensorrt", "mode": None, "options": {**options, **IN_PYTORCH}}
        program = transformers_generate.with_fixed_cache(subject.model, request, **fixed)
    else:
        # In place: `generate` never calls what `torch.compile(model)` returns.
        subject.model.compile(backend="tensorrt", options=options)
        program = transformers_generate.TextGeneration(subject.model, request)
    program(program.feed(inputs))
    return program


def engagement(program: Any, device_inputs: Any) -> Engagement:
    if isinstance(program, TorchProgram):
        return torch_tensorrt_engines.engagement(program, device_inputs)
    from probes.subjects import transformers_generate

    eager = transformers_generate.TextGeneration(
        # The copy of a model that is compiled in place is not compiled.
        transformers_generate.copy_with_same_weights(program.model),
        program.request,
    )
    return torch_tensorrt_engines.compare_operators(
        lambda: program(device_inputs), lambda: eager(device_inputs)
    )


def integration(subject: Any, request: Request) -> str:
    known = torch_tensorrt_engines.printed_options(request)
    options = {**known, "pass_through_build_failures": True}
    imports = "import torch\nimport torch_tensorrt\n"
    if request.task != GENERATE:
        return f"""\
{imports}
compiled = torch.compile(model, backend="tensorrt", dynamic=False, options={options})
{pytorch.each_call("compiled(*inputs)  # the first call builds the engines")}"""
    if request.options.get("cache") != "static":
        return f"""\
{imports}
model.compile(backend="tensorrt", options={options})
{pytorch.each_call(pytorch.generate_call(request), result="tokens")}"""
    fixed = pytorch.generate_call(request, 'cache_implementation="static"', "compile_config=config")
    return f"""\
{imports}import transformers

config = transformers.CompileConfig(backend="tensorrt", dynamic=False, mode=None, options={options | IN_PYTORCH})
{pytorch.each_call(fixed, result="tokens")}"""  # noqa: E501 - the lines are counted, so they are not wrapped
