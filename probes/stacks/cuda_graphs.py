"""Capture a program's call as a CUDA graph and replay it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from probes.adapter import Engagement, Program
from probes.device_work import profile_calls
from probes.shape import Shape
from probes.timing import Timer, synchronise

#: Libraries choose kernels and allocate workspaces in the first calls, which a capture forbids.
WARMUP_CALLS = 3


@dataclasses.dataclass(frozen=True)
class CapturedProgram:
    """A graph of another program's call, with the tensors that the graph reads and writes."""

    program: Program
    graph: torch.cuda.CUDAGraph
    inputs: tuple[torch.Tensor, ...]
    output: Any

    def feed(self, inputs: list[Any]) -> Any:
        return self.program.feed(inputs)

    def __call__(self, device_inputs: tuple[torch.Tensor, ...]) -> Any:
        for target, source in zip(self.inputs, device_inputs, strict=True):
            if target.shape != source.shape:  # `copy_` would broadcast without an error
                raise ValueError(
                    f"the graph was captured for {tuple(target.shape)}, not {tuple(source.shape)}"
                )
            target.copy_(source)
        self.graph.replay()
        return self.output

    def collect(self, output: Any) -> list[Any]:
        return self.program.collect(output)


def capture(program: Program, inputs: list[Any]) -> CapturedProgram:
    """Capture a call of `program`, whose `feed` must return a tuple of CUDA tensors."""
    tensors = program.feed(inputs)
    graph, output = record(lambda: program(tensors))
    return CapturedProgram(program, graph, tensors, output)


def record(
    call: Callable[[], Any], warm_up: Callable[[], object] | None = None
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return a graph of `call`, and its output, after runs of `warm_up` or of `call` itself."""
    for _ in range(WARMUP_CALLS):
        (warm_up or call)()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call()
    return graph, output


def engagement(program: Program, device_inputs: Any) -> Engagement:
    return graph_engagement(count_launches(lambda: program(device_inputs)))


def graph_engagement(launches: KernelLaunches) -> Engagement:
    kernels, single, graphs = launches
    share = max(kernels - single, 0) / kernels if kernels else 0.0
    if not graphs:
        proof = f"no captured graph was launched: {kernels} kernels were launched one by one"
        return Engagement(0.0, proof)
    proof = (
        f"{graphs} captured graphs launch the {kernels} kernels of a call; "
        f"{single} are launched one by one"
    )
    return Engagement(share, proof)


def with_graphs(engaged: Engagement, launches: KernelLaunches, missing: str) -> Engagement:
    """Add the graphs that launch kernels; without any the share is 0, the proof `missing`."""
    if not launches.graph_launches:
        return Engagement(0.0, missing, engaged.facts)
    proof = (
        f"{engaged.proof}; {launches.graph_launches} captured graphs launch its kernels, "
        f"{launches.launches} are launched one by one"
    )
    return Engagement(engaged.share, proof, engaged.facts)


def integration(call: str) -> str:
    """Return the lines that capture the expression `call`, which reads `inputs`, and replay it."""
    captured = call.replace("inputs", "captured")
    return f"""\
captured = tuple(tensor.clone() for tensor in inputs)
with torch.no_grad():
    for _ in range({WARMUP_CALLS}):
        {captured}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = {captured}
# Each call, which overwrites `output`:
for target, tensor in zip(captured, inputs): target.copy_(tensor)
graph.replay()
"""


class KernelLaunches(NamedTuple):
    """The kernels of a call, by any library in the process, and the launches that start them."""

    kernels: int
    #: Number of launches of single kernels, and of whole captured graphs.
    launches: int
    graph_launches: int


def count_launches(call: Callable[[], object]) -> KernelLaunches:
    diagnosed = profile_calls(Timer(lambda _: call(), [None], synchronise), Shape(1))
    assert diagnosed is not None  # noqa: S101 - for mypy; PyTorch is loaded
    counts = (
        diagnosed.kernels_per_call,
        diagnosed.launches_per_call,
        diagnosed.graph_launches_per_call,
    )
    return KernelLaunches(*(round(each or 0) for each in counts))
