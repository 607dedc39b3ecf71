"""AOTInductor: export the model, compile it ahead of time into a package, load the package."""

from __future__ import annotations

import pathlib
from typing import Any

import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package

from probes.protocol import Engagement, Request
from probes.stacks import cuda_graphs, pytorch
from probes.stacks.cuda_graphs import CapturedProgram
from probes.stacks.pytorch import TorchProgram
from probes.subjects.opening import TorchSubject, open_torch_subject

settings = pytorch.apply_settings
open_subject = open_torch_subject
synchronise = pytorch.synchronise


def versions() -> dict[str, str]:
    """Return the versions of torch and, on a GPU, of the compiler beneath it."""
    return pytorch.versions(*(["triton"] if torch.version.cuda else []))


def build(
    subject: TorchSubject, inputs: list[Any], request: Request
) -> TorchProgram | CapturedProgram:
    """Export for these shapes, compile into a package in the scratch directory unless it is there, load it, capture a call if asked to."""
    tensors = subject.tensors(inputs)
    shape = "x".join(str(size) for tensor in tensors for size in tensor.shape)
    package = pathlib.Path(request.scratch_directory) / f"model-{shape}.pt2"
    if not package.exists():
        # Renamed when whole: a worker that is ended meanwhile leaves nothing that looks like a
        # package.
        beside = package.with_name(f"part-{package.name}")
        with pytorch.ordinary_mode():
            exported = torch.export.export(
                subject.module, tuple(tensor.clone() for tensor in tensors), strict=False
            )
            aoti_compile_and_package(exported, package_path=str(beside))
        beside.rename(package)
    if request.options.get("cuda_graph"):
        # Capturing wants the runner that leaves streams and events to the caller.
        return cuda_graphs.capture(
            TorchProgram(subject, aoti_load_package(str(package), run_single_threaded=True)), inputs
        )
    return TorchProgram(subject, aoti_load_package(str(package)))


def engagement(program: TorchProgram | CapturedProgram, fed: Any) -> Engagement:
    """Show that no operator of the eager module runs: what is loaded is the package's own code, or nothing."""
    if isinstance(program, CapturedProgram):
        return cuda_graphs.engagement(program, fed)
    outside, _ = pytorch.operators_outside(lambda: program(fed), ("aoti", "AOTI"))
    metadata = dict(program.call.get_metadata())  # type: ignore[attr-defined]
    proof = f"the loaded package ran the whole graph; {outside} ATen operators came through PyTorch's dispatcher"
    return Engagement(1.0, proof, {"package": metadata, "dispatched_operators": outside})


def integration(request: Request) -> str:
    """Return the lines that compile, load and run the package."""
    captured = request.options.get("cuda_graph")
    run = (
        cuda_graphs.integration("compiled")
        if captured
        else "with torch.inference_mode():\n    output = compiled(*inputs)\n"
    )
    return f"""\
import torch

with torch.no_grad():
    exported = torch.export.export(model, inputs, strict=False)
    package = torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
compiled = torch._inductor.aoti_load_package(package{", run_single_threaded=True" if captured else ""})
{run}"""
