"""ExecuTorch: the exported module lowered to XNNPACK where that takes it, else to ExecuTorch's own kernels, and run by its runtime."""

from __future__ import annotations

import dataclasses
import json
import operator
import pathlib
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime

from probes.protocol import Engagement, Request
from probes.stacks import pytorch
from probes.subjects.opening import TorchSubject, collect, open_torch_subject

open_subject = open_torch_subject
synchronise = pytorch.synchronise

DELEGATE = "executorch_call_delegate"
#: How the runtime hands its outputs over to PyTorch.
COPIES = ("aten::clone",)


def versions() -> dict[str, str]:
    """Return the versions of ExecuTorch and of torch."""
    return pytorch.versions("executorch")


def settings(request: Request) -> dict[str, str]:
    """Give its pool of threads the size that all arms have, and return what is in force."""
    portable_lib._unsafe_reset_threadpool(request.threads)  # noqa: SLF001 - it has no other name
    count = portable_lib._threadpool_get_thread_count()  # noqa: SLF001
    return {**pytorch.apply_settings(request), "threadpool": str(count)}


@dataclasses.dataclass(frozen=True)
class ExecuTorchProgram:
    """A loaded method; its program has to live as long."""

    subject: TorchSubject
    program: Any
    method: Any
    file: pathlib.Path

    def feed(self, inputs: list[Any]) -> list[torch.Tensor]:
        """Return the tensors the method takes."""
        return list(self.subject.tensors(inputs))

    def __call__(self, fed: list[torch.Tensor]) -> Any:
        """Run once."""
        return self.method.execute(fed)

    def collect(self, output: Any) -> list[Any]:
        """Copy the outputs before the next call overwrites them."""
        return collect([tensor.clone() for tensor in output])


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> ExecuTorchProgram:
    """Export, lower and write the program unless an earlier process of this arm has; load it."""
    tensors = subject.tensors(inputs)
    shape = "x".join(str(size) for tensor in tensors for size in tensor.shape)
    file = pathlib.Path(request.scratch_directory) / f"model-{shape}.pte"
    if not file.exists():
        with pytorch.ordinary_mode():
            exported = torch.export.export(
                subject.module, tuple(tensor.clone() for tensor in tensors), strict=False
            )
            lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
            count_of(file).write_text(
                json.dumps(count_operators(lowered.exported_program().graph_module))
            )
            beside = file.with_suffix(".part")
            beside.write_bytes(lowered.to_executorch().buffer)
        beside.rename(file)
    program = Runtime.get().load_program(str(file))
    return ExecuTorchProgram(subject, program, program.load_method("forward"), file)


def count_of(file: pathlib.Path) -> pathlib.Path:
    """Return where it is written down what a program consists of."""
    return file.with_suffix(".json")


def count_operators(graph: Any) -> dict[str, int]:
    """Return how many operators XNNPACK took, in how many parts, and how many are left to ExecuTorch's own kernels."""
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    own = [
        node
        for node in calls
        if node.target is not operator.getitem and DELEGATE not in str(node.target)
    ]
    found = get_delegation_info(graph)
    return {
        "delegated": found.num_delegated_nodes,
        "partitions": found.num_delegated_subgraphs,
        "own": len(own),
    }


def engagement(program: ExecuTorchProgram, fed: Any) -> Engagement:
    """Show who computes what in the program, and that PyTorch computes nothing."""
    outside, _ = pytorch.operators_outside(lambda: program(fed), COPIES)
    count = json.loads(count_of(program.file).read_text())
    inside = count["delegated"] + count["own"]
    proof = (
        f"XNNPACK has {count['delegated']} operators in {count['partitions']} partitions, ExecuTorch's own kernels {count['own']}; "
        f"{outside} ran in PyTorch"
    )
    return Engagement(
        inside / (inside + outside), proof, {**count, "operators_in_pytorch": outside}
    )


def integration(request: Request) -> str:  # noqa: ARG001 - the same for every model
    """Return the lines that export, lower, write, load and run it."""
    return """\
import pathlib

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

with torch.no_grad():
    exported = torch.export.export(model, inputs, strict=False)
program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
pathlib.Path("model.pte").write_bytes(program.buffer)
method = Runtime.get().load_program("model.pte").load_method("forward")
output = method.execute(list(inputs))
"""
