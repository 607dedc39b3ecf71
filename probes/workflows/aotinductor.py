"""AOTInductor: export the model and compile it ahead of time into a package."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package

from probes.adapter import Engagement, Request, StartLines
from probes.files import replace_when_complete
from probes.stacks import cuda_graphs, onnx_export, pytorch
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "triton")
settings = pytorch.apply_settings
open_subject = open_torch_subject


def build(
    subject: TorchSubject, inputs: list[Any], request: Request
) -> TorchProgram | CapturedProgram:
    package = pytorch.artefact(request, inputs, "pt2")
    if request.options.get("dynamic"):
        package = package.with_name("model-any-shape.pt2")
    if not package.exists():
        exported = onnx_export.export(subject, inputs, request)
        with replace_when_complete(package) as partial:
            aoti_compile_and_package(exported, package_path=str(partial))
    # A capture needs the runner that leaves streams and events to the caller.
    is_captured = bool(request.options.get("cuda_graph"))
    loaded = aoti_load_package(str(package), run_single_threaded=is_captured)
    limits = onnx_export.size_limits(request)
    if limits:  # which the package does not check
        loaded = pytorch.compile_call(integration(subject, request), compiled=loaded, torch=torch)
    program = TorchProgram(subject, loaded, facts={"limits": limits})
    return cuda_graphs.capture(program, inputs) if is_captured else program


def engagement(program: TorchProgram | CapturedProgram, device_inputs: Any) -> Engagement:
    """Return a full share: a loaded package runs as a whole or not at all."""
    if isinstance(program, CapturedProgram):
        return cuda_graphs.engagement(program, device_inputs)
    outside, _ = pytorch.count_operators_outside(lambda: program(device_inputs), ("aoti", "AOTI"))
    proof = (
        "the loaded package ran the whole graph; "
        f"{outside} ATen operators ran through PyTorch's dispatcher"
    )
    return Engagement(1.0, proof, size_limits=program.facts["limits"])


def _lines(request: Request) -> tuple[str, str]:
    """Return the lines that write the package, and those that load it from `{}` and call it."""
    captured = request.options.get("cuda_graph")
    run = (
        cuda_graphs.integration("compiled(*inputs)")
        if captured
        else pytorch.each_call("compiled(*inputs)")
    )
    shapes, arguments = "", "inputs"
    if request.options.get("dynamic"):
        shapes, arguments = onnx_export.EXPORT_LINES, "example, dynamic_shapes=shapes"
    write = f"""\
import torch

{shapes}with torch.no_grad():
    exported = torch.export.export(model, {arguments}, strict=False)
    package = torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
"""
    single = ", run_single_threaded=True" if captured else ""
    load = f"compiled = torch._inductor.aoti_load_package({{}}{single})\n{run}"
    return write, onnx_export.with_limits(load, request)


def integration(subject: Any, request: Request) -> str:
    write, load = _lines(request)
    return write + load.format("package")


def starts(subject: TorchSubject, request: Request) -> dict[str, StartLines]:
    write, load = _lines(request)
    known = "torch._inductor.config.cpp.vec_isa_ok = True  # no test compilation: it is built\n"
    known = known if request.device == "cpu" else ""
    start = f"import torch\n\n{known}" + load.format('"model.pt2"')
    return {"package": StartLines(start=start, write=write)}
