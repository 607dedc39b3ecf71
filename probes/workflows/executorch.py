"""ExecuTorch: lower the exported model to XNNPACK and ExecuTorch's own kernels."""

from __future__ import annotations

import functools
import json
import operator
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime

from probes.adapter import AS_LIST, Engagement, Request
from probes.files import replace_when_complete
from probes.stacks import onnx_export, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "executorch")
open_subject = open_torch_subject

DELEGATE = "executorch_call_delegate"
#: Operators with which the runtime hands its outputs to PyTorch.
COPIES = ("aten::clone",)


def settings(request: Request) -> dict[str, str]:
    portable_lib._unsafe_reset_threadpool(request.threads)  # noqa: SLF001 - no public name
    count = portable_lib._threadpool_get_thread_count()  # noqa: SLF001 - no public name
    return {**pytorch.apply_settings(request), "threadpool": str(count)}


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    file = pytorch.artefact(request, inputs, "pte")
    if not file.exists():
        exported = onnx_export.export(subject, inputs, request)
        with replace_when_complete(file) as partial:
            lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
            counts = count_operators(lowered.exported_program().graph_module)
            file.with_suffix(".json").write_text(json.dumps(counts))
            partial.write_bytes(lowered.to_executorch().buffer)
    program = Runtime.get().load_program(str(file))
    call = functools.partial(execute, program, program.load_method("forward"))
    return TorchProgram(subject, call, facts=json.loads(file.with_suffix(".json").read_text()))


def execute(_program: Any, method: Any, *tensors: torch.Tensor) -> Any:
    """Run a loaded method, whose program must outlive it; the next call overwrites the outputs."""
    return method.execute(list(tensors))


def count_operators(graph: Any) -> dict[str, int]:
    own = sum(
        node.target is not operator.getitem and DELEGATE not in str(node.target)
        for node in graph.graph.nodes
        if node.op == "call_function"
    )
    delegation = get_delegation_info(graph)
    return {
        "delegated": delegation.num_delegated_nodes,
        "partitions": delegation.num_delegated_subgraphs,
        "own": own,
    }


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    outside, _ = pytorch.count_operators_outside(lambda: program(device_inputs), ignored=COPIES)
    counts = program.facts
    inside = counts["delegated"] + counts["own"]
    proof = (
        f"XNNPACK runs {counts['delegated']} operators in {counts['partitions']} partitions, "
        f"ExecuTorch's own kernels run {counts['own']}, and PyTorch ran {outside}"
    )
    return Engagement(inside / (inside + outside), proof)


def integration(subject: Any, request: Request) -> str:
    return f"""\
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
# Each call:
output = method.execute(list(inputs)){AS_LIST}
"""
