"""`torch.compile` with Torch-TensorRT's backend: engines are built at the first call."""

from __future__ import annotations

from typing import Any

import torch

from probes import torch_stack, torch_tensorrt_stack
from probes.protocol import Engagement, Request
from probes.subjects.opening import TorchSubject, open_torch_subject
from probes.torch_stack import TorchProgram

versions = torch_tensorrt_stack.versions
settings = torch_tensorrt_stack.settings
open_subject = open_torch_subject
synchronise = torch_stack.synchronise


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    """Compile for these shapes; a failure is to be seen, where the backend by itself would run eager code with a line in its log."""
    options = {**torch_tensorrt_stack.compile_options(subject, request), "pass_through_build_failures": True}
    program = TorchProgram(subject, torch.compile(subject.module, backend="tensorrt", dynamic=False, options=options))
    program(program.feed(inputs))
    return program


def engagement(program: TorchProgram, fed: Any) -> Engagement:
    """Count engines and the operators that ran outside them."""
    return torch_tensorrt_stack.engagement(program, fed)


def integration(request: Request) -> str:
    """Return the lines that compile and run the module."""
    options: dict[str, Any] = {"min_block_size": 1, "pass_through_build_failures": True}
    if request.options.get("fp32_accumulation"):
        options["use_fp32_acc"] = True
    return f"""\
import torch
import torch_tensorrt

compiled = torch.compile(model, backend="tensorrt", dynamic=False, options={options})
with torch.inference_mode():
    output = compiled(*inputs)  # the first call builds the engines
"""
