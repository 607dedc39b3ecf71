"""`torch.compile` with OpenVINO's backend."""

from __future__ import annotations

import logging
from typing import Any

from openvino.frontend.pytorch.torchdynamo import execute as partitions

from probes.adapter import Engagement, Request
from probes.stacks import dynamo, openvino_model, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = openvino_model.versions
settings = openvino_model.settings
open_subject = open_torch_subject

#: The logger that reports, at level DEBUG only, that the backend hands a graph to Inductor.
BACKEND = "openvino.frontend.pytorch.torchdynamo.backend"


class InductorFallbacks(logging.Handler):
    """Keeps the reasons why OpenVINO has handed a graph to Inductor."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "failed" in record.getMessage().lower():
            self.reasons.append(record.getMessage())


fallbacks = InductorFallbacks()
logging.getLogger(BACKEND).addHandler(fallbacks)
logging.getLogger(BACKEND).setLevel(logging.DEBUG)


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    options = {
        "device": "CPU",
        "config": openvino_model.configuration(subject.dtype, request),
        # Without it the backend hands models with parameters in nested modules to Inductor.
        "aot_autograd": True,
    }
    return dynamo.compile_module(
        subject, inputs, backend="openvino", dynamic=False, options=options
    )


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    """Return the share of OpenVINO's layers; 0 if Inductor or eager code replaced any."""
    if fallbacks.reasons:
        proof = f"OpenVINO handed the graph to Inductor: {fallbacks.reasons[0]}"[:500]
        return Engagement(0.0, proof)
    fallen = sum(
        isinstance(part, partitions.OpenVINOGraphModule) and bool(part.perm_fallback)
        for whole in partitions.partitioned_modules.values()
        for part in whole.modules()
    )
    if fallen:
        proof = f"{fallen} partitions failed in OpenVINO and run in eager PyTorch"
        return Engagement(0.0, proof)
    eager, _ = pytorch.count_operators_outside(
        lambda: program(device_inputs), ignored=pytorch.PASSING
    )
    facts = list(map(openvino_model.describe_compiled, partitions.compiled_cache.values()))
    if not facts:
        return Engagement(0.0, dynamo.with_cause("OpenVINO runs no layer"))
    layers = sum(count for each in facts for count in each["layers"].values()) // len(facts)
    share = layers / (layers + eager)
    precisions = ", ".join(sorted({each["inference_precision"] for each in facts}))
    proof = (
        f"OpenVINO runs {layers} layers in {precisions}, {eager} operators ran in PyTorch, "
        "no partition fell back"
    )
    return Engagement(share, proof)


def integration(subject: Any, request: Request) -> str:
    hint = openvino_model.PRECISION_HINTS.get(subject.dtype, "f32")
    return f"""\
import openvino.torch
import torch

# Without the hint OpenVINO chooses the precision, such as bfloat16 on some CPUs.
options = {{"device": "CPU", "aot_autograd": True, "config": {{"INFERENCE_PRECISION_HINT": "{hint}", "PERFORMANCE_HINT": "LATENCY"}}}}
compiled = torch.compile(model, backend="openvino", dynamic=False, options=options)
{pytorch.each_call("compiled(*inputs)  # the first call compiles")}"""  # noqa: E501 - the lines are counted, so they are not wrapped
