"""Capture a program's call as a CUDA graph and replay it."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from probes.adapter import Program
from probes.stacks import kernel_launches
from probes.wire.events import Engagement

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
        """Copy the inputs to where the graph reads them, and replay the graph."""
        for target, source in zip(self.inputs, device_inputs, strict=True):
            if target.shape != source.shape:  # `copy_` would broadcast without an error
                message = (
                    f"the graph was captured for {tuple(target.shape)}, not {tuple(source.shape)}"
                )
                raise ValueError(message)
            target.copy_(source)
        self.graph.replay()
        return self.output

    def collect(self, output: Any) -> list[Any]:
        return self.program.collect(output)


def capture(program: Program, inputs: list[Any]) -> CapturedProgram:
    """Warm up `program` on a side stream and capture one call of it.

    `program.feed` must return a tuple of CUDA tensors.
    """
    tensors = program.feed(inputs)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUP_CALLS):
            program(tensors)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = program(tensors)
    return CapturedProgram(program, graph, tensors, output)


def engagement(program: CapturedProgram, device_inputs: Any) -> Engagement:
    """Return the share of the kernels that the graph starts."""
    launches = kernel_launches.count_launches(lambda: program(device_inputs))
    return kernel_launches.graph_engagement(launches)


def integration(name: str) -> str:
    """Return the lines that capture the callable `name` for `inputs` and replay it."""
    return f"""\
with torch.inference_mode():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range({WARMUP_CALLS}):
            {name}(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = {name}(*inputs)
# Each call, after new values are copied into the tensors in `inputs`; `output` is overwritten:
graph.replay()
"""
