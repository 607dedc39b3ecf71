"""LiteRT: the model, converted to a .tflite file, runs in LiteRT's interpreter with XNNPACK."""

from __future__ import annotations

import functools
from typing import Any

import litert_torch
from ai_edge_litert.interpreter import Interpreter

from probes.adapter import AS_LIST, Engagement, Request
from probes.files import replace_when_complete
from probes.stacks import pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import TorchSubject, open_torch_subject

versions = functools.partial(pytorch.versions, "litert-torch", "ai-edge-litert")
open_subject = open_torch_subject

#: Name of an operator that stands for a partition which a delegate runs.
DELEGATE = "DELEGATE"


def settings(request: Request) -> dict[str, str]:
    return {**pytorch.apply_settings(request), "interpreter_threads": str(request.threads)}


def build(subject: TorchSubject, inputs: list[Any], request: Request) -> TorchProgram:
    file = pytorch.artefact(request, inputs, "tflite")
    if not file.exists():
        with replace_when_complete(file) as partial:
            arguments = tuple(tensor.clone() for tensor in subject.tensors(inputs))
            litert_torch.convert(subject.module, arguments).export(str(partial))
    interpreter = Interpreter(str(file), num_threads=request.threads)
    interpreter.allocate_tensors()
    signature = interpreter.get_signature_runner()
    details = [signature.get_input_details()[f"args_{number}"] for number in range(len(inputs))]
    lines = integration(subject, request)
    call = pytorch.compile_call(lines, signature=signature, details=details)
    return TorchProgram(subject, call, facts={"interpreter": interpreter})


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:
    outside, _ = pytorch.count_operators_outside(
        lambda: program(device_inputs), ignored=pytorch.PASSING
    )
    operators = [
        each["op_name"]
        for each in program.facts["interpreter"]._get_ops_details()  # noqa: SLF001 - no public name
    ]
    partitions = operators.count(DELEGATE)
    inside = len(operators) - partitions
    proof = (
        f"LiteRT holds {inside} operators, XNNPACK runs those of {partitions} partitions, "
        f"and PyTorch ran {outside} operators"
    )
    return Engagement(inside / (inside + outside), proof)


def integration(subject: Any, request: Request) -> str:
    return f"""\
import litert_torch
import torch
from ai_edge_litert.interpreter import Interpreter

litert_torch.convert(model, inputs).export("model.tflite")
interpreter = Interpreter("model.tflite", num_threads=torch.get_num_threads())
interpreter.allocate_tensors()
signature = interpreter.get_signature_runner()
details = [signature.get_input_details()[f"args_{{number}}"] for number in range(len(inputs))]
# Each call, with integers in the type that the file has:
named = signature(**{{f"args_{{number}}": tensor.numpy().astype(details[number]["dtype"], copy=False) for number, tensor in enumerate(inputs)}})
output = [named[f"output_{{number}}"] for number in range(len(named))]{AS_LIST}
"""  # noqa: E501 - the lines are counted, so they are not wrapped
