"""OpenVINO: convert the exported module or an ONNX file, and compile it for the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openvino
import torch

from probes.adapter import GENERATE, Engagement, Program, Request
from probes.stacks import onnx_export, openvino_model, pytorch
from probes.stacks.pytorch import TorchProgram
from probes.subjects import by_request
from probes.subjects.torch_subject import TorchSubject

if TYPE_CHECKING:
    from probes.stacks.openvino_generation import OpenVinoGeneration

versions = openvino_model.versions
settings = openvino_model.settings
open_subject = by_request.open_subject
#: Expressions for the inputs and outputs of a call, which numpy's arrays pass without copies. It
#: lacks bfloat16, so its bits pass as int16.
ARRAYS = "tensor.numpy() for tensor in inputs"
BITS = "openvino.Tensor(tensor.view(torch.int16).numpy(), tensor.shape, openvino.Type.bf16) if tensor.dtype == torch.bfloat16 else tensor.numpy() for tensor in inputs"  # noqa: E501 - the lines are counted, so they are not wrapped
FROM_BITS = '[torch.from_numpy(array.view("int16")).view(torch.bfloat16) if port.get_element_type() == openvino.Type.bf16 else torch.from_numpy(array) for port, array in {call}.items()]'  # noqa: E501 - as above
#: The compiled models of a dynamic arm; one serves all shapes of a worker.
_dynamic_models: dict[str, Any] = {}


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """Compile `subject`: a `CausalLm` for text, else a `TorchSubject` or an `OnnxSubject`."""
    if request.task == GENERATE:
        from probes.stacks import openvino_generation

        return openvino_generation.build(subject, inputs, request)
    compiled, weight_bytes = _dynamic_models.get(request.arm), None
    if compiled is None:
        core = openvino.Core()
        if isinstance(subject, TorchSubject):
            model = openvino.convert_model(onnx_export.export(subject, inputs, request))
        else:
            model = core.read_model(subject.file)
        if request.options.get("weights"):
            model = openvino_model.compress(model, request.options["weights"])
            weight_bytes = openvino_model.count_weight_bytes(model)
        configuration = openvino_model.configuration(subject.dtype, request)
        compiled = core.compile_model(model, "CPU", configuration)
        if request.options.get("dynamic"):
            _dynamic_models[request.arm] = compiled
    lines = integration(subject, request)
    call = pytorch.compile_call(lines, compiled=compiled, openvino=openvino, torch=torch)
    facts = {"compiled": compiled, "weight_bytes": weight_bytes}
    facts["limits"] = onnx_export.size_limits(request)
    return TorchProgram(subject, call, facts=facts)


def engagement(program: TorchProgram | OpenVinoGeneration, device_inputs: Any) -> Engagement:
    """Return a full share, as a model runs whole or not at all, or that of compressed weights."""
    compiled, weight_bytes = program.facts["compiled"], program.facts["weight_bytes"]
    if weight_bytes is not None:
        return openvino_model.weights_engagement(compiled, weight_bytes)
    facts = openvino_model.describe_compiled(compiled)
    layers = ", ".join(f"{count} {kind}" for kind, count in sorted(facts["layers"].items()))
    devices, precision = "+".join(facts["devices"]), facts["inference_precision"]
    proof = (
        f"the compiled model runs as a whole on {devices} in {precision} "
        f"with {facts['threads']} threads: {layers}"
    )
    return Engagement(1.0, proof, size_limits=program.facts["limits"])


def integration(subject: Any, request: Request) -> str:
    hint = openvino_model.PRECISION_HINTS.get(subject.dtype, "f32")
    if request.task == GENERATE:
        from probes.stacks import openvino_generation

        return openvino_generation.integration(request, hint)
    is_file = request.subject["kind"] == "onnx"
    free = bool(request.options.get("dynamic")) and not is_file
    arguments = "example, dynamic_shapes=shapes" if free else "inputs"
    export = f"""\
{onnx_export.EXPORT_LINES if free else ""}with torch.no_grad():
    exported = torch.export.export(model, {arguments}, strict=False)
"""
    is_bfloat16 = subject.dtype == "bfloat16"
    call = f"compiled([{BITS if is_bfloat16 else ARRAYS}], share_outputs=True)"
    output = FROM_BITS.format(call=call) if is_bfloat16 else call
    converted, package = openvino_model.conversion("model" if is_file else "exported", request)
    lines = f"""\
{package}import openvino
import torch

{"" if is_file else export}converted = {converted}
# Without the hint OpenVINO chooses the precision, such as bfloat16 on some CPUs.
compiled = openvino.compile_model(converted, "CPU", {{"INFERENCE_PRECISION_HINT": "{hint}", "PERFORMANCE_HINT": "LATENCY"}})
# Each call:
output = {output}  # output[0] and so on, in the order of the model; the next call overwrites them
"""  # noqa: E501 - as above
    return onnx_export.with_limits(lines, request)
