"""`torch.compile` with the backend of PyTorch/XLA: the module lives on an XLA device, and what Dynamo captures is compiled by OpenXLA."""

from __future__ import annotations

import copy
import dataclasses
import os
from typing import Any

import torch
import torch_xla
from torch_xla.core import xla_model
from torch_xla.debug import metrics

from probes.protocol import Engagement, Request
from probes.stacks import pytorch
from probes.subjects.opening import TorchSubject, collect, open_torch_subject

open_subject = open_torch_subject

#: How the counter of an operator is called that XLA lacks, so that PyTorch runs it on the host.
HANDED_BACK = "aten::"
#: How the counter of an operator is called that runs by itself, outside what Dynamo captured.
BY_ITSELF = "xla::"


def versions() -> dict[str, str]:
    """Return the versions of both."""
    return pytorch.versions("torch-xla")


def settings(request: Request) -> dict[str, str]:
    """Choose where XLA computes, the plug-in for CUDA being gone since 2.9; its threads come from the environment."""
    os.environ["PJRT_DEVICE"] = "CPU"
    return {**pytorch.apply_settings(request), "pjrt_device": "CPU"}


@dataclasses.dataclass(frozen=True)
class XlaProgram:
    """A compiled module with weights of its own on the XLA device, which takes no tensors of inference mode."""

    compiled: Any
    subject: TorchSubject

    def feed(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Put the inputs on the device."""
        with pytorch.ordinary_mode():
            return tuple(
                tensor.clone().to(torch_xla.device()) for tensor in self.subject.tensors(inputs)
            )

    def __call__(self, fed: tuple[Any, ...]) -> Any:
        """Run once."""
        with pytorch.ordinary_mode():
            return self.compiled(*fed)

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host."""
        with pytorch.ordinary_mode():
            return collect(output)


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> XlaProgram:  # noqa: ARG001 - where it computes is set by a variable
    """Copy the module to the XLA device and compile for these shapes at the first call."""
    with pytorch.ordinary_mode():
        module = copy.deepcopy(subject.module).to(torch_xla.device())
        program = XlaProgram(torch.compile(module, backend="openxla", dynamic=False), subject)
    program(program.feed(inputs))
    synchronise()
    return program


def synchronise() -> None:
    """Wait for the device; `torch_xla.sync(wait=True)` waits for what is traced, not for what Dynamo has started."""
    xla_model.wait_device_ops()


def engagement(program: XlaProgram, fed: Any) -> Engagement:
    """Count the operators of a call that ran by themselves or were handed back to PyTorch, against those of the eager module."""
    metrics.clear_all()
    program(fed)
    synchronise()
    counted = {name: int(metrics.counter_value(name)) for name in metrics.counter_names()}
    by_itself, handed_back = (
        sum(count for name, count in counted.items() if name.startswith(kind))
        for kind in (BY_ITSELF, HANDED_BACK)
    )
    runs = (
        metrics.metric_data("RunCachedGraphOutputData")
        or metrics.metric_data("ExecuteTime")
        or (0,)
    )[0]
    with pytorch.ordinary_mode():
        host = tuple(tensor.cpu() for tensor in fed)
        operators, _ = pytorch.operators_outside(
            lambda: program.subject.module(*host), ("no region",)
        )
    facts = {
        "runs": int(runs),
        "operators_outside": by_itself,
        "handed_back": handed_back,
        "operators": operators,
    }
    if not runs:
        return Engagement(0.0, "XLA ran no compiled program", facts)
    share = max(1 - (by_itself + handed_back) / max(operators, 1), 0.0)
    proof = f"XLA ran compiled programs; of {operators} operators {by_itself} ran by themselves, {handed_back} went back to PyTorch"
    return Engagement(share, proof, facts)


def integration(request: Request) -> str:  # noqa: ARG001 - the same for every model
    """Return the lines that compile and run the module."""
    return """\
import torch
import torch_xla

device = torch_xla.device()
compiled = torch.compile(model.to(device), backend="openxla")
output = compiled(*(tensor.to(device) for tensor in inputs))  # the first call compiles
torch_xla.core.xla_model.wait_device_ops()
"""
