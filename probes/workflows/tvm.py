"""Apache TVM: compile the exported module with Relax and LLVM, without hours of tuning."""

from __future__ import annotations

import functools
import os
from typing import Any

import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from probes.adapter import AS_LIST, Engagement, Request
from probes.stacks import onnx_export, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "apache-tvm")
open_subject = open_torch_subject


def settings(request: Request) -> dict[str, str]:
    """Return the settings; TVM reads its threads from the environment when it is imported."""
    return {
        **pytorch.apply_settings(request),
        "tvm_num_threads": os.environ.get("TVM_NUM_THREADS", ""),
        "tuned": "no",
    }


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    exported = onnx_export.export(subject, inputs, request)
    imported, weights = relax.frontend.detach_params(
        from_exported_program(exported, keep_params_as_input=True)
    )
    lowered = relax.get_pipeline("zero")(imported)
    target = tvm.target.Target(
        {"kind": "llvm", "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())}
    )
    compiled = tvm.compile(lowered, target=target)
    file = pytorch.artefact(request, inputs, "so")
    compiled.export_library(str(file))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())
    functions = sum(1 for name in lowered.get_global_vars() if name.name_hint != "main")
    lines = integration(subject, request)
    call = pytorch.compile_call(lines, main=machine["main"], weights=weights)
    return TorchProgram(subject, call, facts={"functions": functions})


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    library = f"TVM's library of {program.facts['functions']} generated functions"
    proof = f"{library} ran the whole graph, untuned"
    return pytorch.whole_graph_engagement(program, device_inputs, proof)


def integration(subject: Any, request: Request) -> str:
    return f"""\
import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

with torch.no_grad():
    exported = torch.export.export(model, inputs, strict=False)
module, weights = relax.frontend.detach_params(from_exported_program(exported, keep_params_as_input=True))
target = tvm.target.Target({{"kind": "llvm", "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())}})
compiled = tvm.compile(relax.get_pipeline("zero")(module), target=target)
main = relax.VirtualMachine(compiled, tvm.cpu())["main"]
# Each call:
output = list(main(*(tensor.contiguous() for tensor in inputs), *weights["main"])){AS_LIST}
"""  # noqa: E501 - the lines are counted, so they are not wrapped
