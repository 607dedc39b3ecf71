"""LiteRT: the model, converted to a .tflite file, runs in LiteRT's interpreter with XNNPACK."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import litert_torch
import numpy as np
from ai_edge_litert.interpreter import Interpreter

from probes.adapter import Engagement, Request
from probes.files import replace_when_complete
from probes.stacks import pytorch
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "litert-torch", "ai-edge-litert")
open_subject = open_torch_subject
synchronise = pytorch.synchronise

#: Name of an operator that stands for a partition which a delegate runs.
DELEGATE = "DELEGATE"


def settings(request: Request) -> dict[str, str]:
    return {**pytorch.apply_settings(request), "interpreter_threads": str(request.threads)}


@dataclasses.dataclass(frozen=True)
class LiteRtProgram:
    """An interpreter, and its only signature with names of inputs in the order of arguments."""

    interpreter: Any
    signature: Any
    inputs: tuple[str, ...]

    def feed(self, inputs: list[Any]) -> dict[str, Any]:
        details = self.signature.get_input_details()
        return {
            name: np.ascontiguousarray(array, dtype=details[name]["dtype"])
            for name, array in zip(self.inputs, inputs, strict=True)
        }

    def __call__(self, device_inputs: dict[str, Any]) -> dict[str, Any]:
        outputs: dict[str, Any] = self.signature(**device_inputs)
        return outputs

    def collect(self, output: dict[str, Any]) -> list[Any]:
        return [output[name] for name in in_order(output)]


def in_order(names: Any) -> list[str]:
    """Sort the converter's names, such as `args_0` and `output_10`, by their number."""
    return sorted(names, key=lambda name: int(name.rpartition("_")[2]))


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> LiteRtProgram:
    file = pytorch.artefact(request, inputs, "tflite")
    if not file.exists():
        with replace_when_complete(file) as partial:
            arguments = tuple(tensor.clone() for tensor in subject.tensors(inputs))
            litert_torch.convert(subject.module, arguments).export(str(partial))
    interpreter = Interpreter(str(file), num_threads=request.threads)
    interpreter.allocate_tensors()
    signature = interpreter.get_signature_runner()
    names = in_order(signature.get_input_details())
    return LiteRtProgram(interpreter, signature, tuple(names))


def engagement(program: LiteRtProgram, device_inputs: Any) -> Engagement:
    outside, _ = pytorch.count_operators_outside(lambda: program(device_inputs))
    operators = [
        each["op_name"]
        for each in program.interpreter._get_ops_details()  # noqa: SLF001 - no public name
    ]
    partitions = operators.count(DELEGATE)
    inside = len(operators) - partitions
    proof = (
        f"LiteRT holds {inside} operators, XNNPACK runs those of {partitions} partitions, "
        f"and PyTorch ran {outside} operators"
    )
    return Engagement(inside / (inside + outside), proof)


def integration(subject: Any, request: Request) -> str:
    return """\
import litert_torch
from ai_edge_litert.interpreter import Interpreter

litert_torch.convert(model, inputs).export("model.tflite")
interpreter = Interpreter("model.tflite")
interpreter.allocate_tensors()
signature = interpreter.get_signature_runner()
# Each call:
arguments = {f"args_{number}": tensor.numpy() for number, tensor in enumerate(inputs)}
output = signature(**arguments)["output_0"]  # further tensors are output_1 and so on
"""
