"""A call captured once as a CUDA graph and replayed: one launch instead of one for each kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from probes.adapter import Program
from probes.protocol import Engagement
from probes.stacks import pytorch_kernels

#: Calls before the capture, so that libraries have chosen their kernels and taken their workspaces.
WARMUP_CALLS = 3


@dataclasses.dataclass(frozen=True)
class CapturedProgram:
    """A graph of another program's call, with the tensors that it reads and writes."""

    program: Program
    graph: torch.cuda.CUDAGraph
    inputs: tuple[torch.Tensor, ...]
    output: Any

    def feed(self, inputs: list[Any]) -> Any:
        """Put the inputs on the device."""
        return self.program.feed(inputs)

    def __call__(self, fed: tuple[torch.Tensor, ...]) -> Any:
        """Copy the inputs to where the graph reads them, and replay it."""
        for target, source in zip(self.inputs, fed, strict=True):
            if target.shape != source.shape:  # a copy would stretch it without a word
                message = (
                    f"the graph was captured for {tuple(target.shape)}, not {tuple(source.shape)}"
                )
                raise ValueError(message)
            target.copy_(source)
        self.graph.replay()
        return self.output

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host."""
        return self.program.collect(output)


def capture(program: Program, inputs: list[Any]) -> CapturedProgram:
    """Call `program`, which is fed with tensors, until it is settled, on a side stream as capturing asks for; then capture a call."""
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


def engagement(program: CapturedProgram, fed: Any) -> Engagement:
    """Return the share of the kernels that the graph starts."""
    return pytorch_kernels.engagement_of_graphs(pytorch_kernels.watch(lambda: program(fed)))


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
    # For new values: copy them into the tensors in `inputs`, then replay; `output` is overwritten.
    graph.replay()
"""
