"""`torch.compile` with PyTorch/XLA's backend: OpenXLA compiles what Dynamo captures."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any

import torch
import torch_xla
from torch_xla.core import xla_model
from torch_xla.debug import metrics

from probes.adapter import Engagement, Request
from probes.stacks import dynamo, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "torch-xla")
open_subject = open_torch_subject

#: Prefix of the counters of operators that XLA does not have; PyTorch runs them on the host.
CPU_FALLBACK = "aten::"
#: Prefix of the counters of operators that run outside of what Dynamo captured.
OUTSIDE_GRAPH = "xla::"


def settings(request: Request) -> dict[str, str]:
    """Apply settings, and choose the CPU: PyTorch/XLA has no plug-in for CUDA since 2.9."""
    os.environ["PJRT_DEVICE"] = "CPU"
    return {**pytorch.apply_settings(request), "pjrt_device": "CPU"}


class XlaProgram(TorchProgram):
    """A compiled module on the XLA device, to which each call moves its inputs."""

    def __call__(self, device_inputs: tuple[torch.Tensor, ...]) -> Any:
        return self.call(*on_device(device_inputs))


def on_device(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.to(torch_xla.device()) for tensor in tensors)


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> XlaProgram:
    module = copy.deepcopy(subject.module).to(torch_xla.device())
    program = XlaProgram(subject, torch.compile(module, backend="openxla", dynamic=False))
    program(program.feed(inputs))
    synchronise()
    return program


def synchronise() -> None:
    """Wait for the device; `torch_xla.sync(wait=True)` does not wait for what Dynamo started."""
    xla_model.wait_device_ops()


def engagement(program: XlaProgram, device_inputs: Any) -> Engagement:
    """Return the share of the eager module's operators that compiled programs replace."""
    moved = on_device(device_inputs)
    metrics.clear_all()
    program.call(*moved)
    synchronise()
    counted = {name: int(metrics.counter_value(name)) for name in metrics.counter_names()}
    by_itself, handed_back = (
        sum(count for name, count in counted.items() if name.startswith(prefix))
        for prefix in (OUTSIDE_GRAPH, CPU_FALLBACK)
    )
    runs = metrics.metric_data("RunCachedGraphOutputData") or metrics.metric_data("ExecuteTime")
    operators, _ = pytorch.count_operators_outside(lambda: program.subject.module(*device_inputs))
    if not (runs and runs[0]):
        return Engagement(0.0, dynamo.with_cause("XLA ran no compiled program"))
    share = max(1 - (by_itself + handed_back) / max(operators, 1), 0.0)
    proof = (
        f"XLA ran compiled programs; of {operators} operators {by_itself} ran outside them, "
        f"and {handed_back} ran in PyTorch on the host"
    )
    return Engagement(share, proof)


def integration(subject: Any, request: Request) -> str:
    call = "compiled(*(tensor.to(device) for tensor in inputs))  # the first call compiles"
    return f"""\
import torch
import torch_xla

device = torch_xla.device()
compiled = torch.compile(model.to(device), backend="openxla", dynamic=False)
{pytorch.each_call(call)}torch_xla.core.xla_model.wait_device_ops()
"""
