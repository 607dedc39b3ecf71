"""OpenVINO: convert the exported module or an ONNX file, and compile it for the CPU."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import openvino
import torch

from probes.adapter import GENERATE, Engagement, Program, Request
from probes.stacks import onnx_export, openvino_model, pytorch
from probes.subjects import by_request
from probes.subjects.torch_subject import TorchSubject

if TYPE_CHECKING:
    from probes.stacks.openvino_generation import OpenVinoGeneration

versions = openvino_model.versions
settings = openvino_model.settings
open_subject = by_request.open_subject
synchronise = pytorch.synchronise


@dataclasses.dataclass(frozen=True)
class OpenVinoProgram:
    """A compiled model and its infer request, which shares inputs and outputs without copies."""

    compiled: Any
    request: Any
    #: Bytes of the weights if they are compressed.
    weight_bytes: int | None = None

    def feed(self, inputs: list[Any]) -> list[Any]:
        return [
            to_tensor(array, port.get_element_type())
            for array, port in zip(inputs, self.compiled.inputs, strict=True)
        ]

    def __call__(self, device_inputs: list[Any]) -> Any:
        self.request.infer(device_inputs, share_inputs=True, share_outputs=True)
        return self.request

    def collect(self, output: Any) -> list[Any]:
        """Copy the outputs, which the next call overwrites."""
        return [
            to_array(output.get_output_tensor(index)) for index in range(len(self.compiled.outputs))
        ]


#: Expression for an input in bfloat16, which numpy lacks: its bits pass as int16.
BITS_AS_BFLOAT16 = "openvino.Tensor(tensor.view(torch.int16).numpy(), tensor.shape, openvino.Type.bf16) if tensor.dtype == torch.bfloat16 else tensor.numpy()"  # noqa: E501 - the lines are counted, so they are not wrapped


def to_tensor(array: Any, kind: Any) -> Any:
    """Return an array as OpenVINO's tensor; numpy has no bfloat16, so its bits pass as int16."""
    if kind == openvino.Type.bf16:
        bits = torch.from_numpy(array).to(torch.bfloat16).view(torch.int16).numpy()
        return openvino.Tensor(bits, list(bits.shape), kind)
    return openvino.Tensor(array.astype(kind.to_dtype()), shared_memory=False)


def to_array(tensor: Any) -> Any:
    """Return a copy of OpenVINO's tensor as an array, half precisions as float32."""
    if tensor.element_type == openvino.Type.bf16:
        bits = torch.from_numpy(tensor.data.view("int16").copy())
        return bits.view(torch.bfloat16).float().numpy()
    is_half = tensor.element_type == openvino.Type.f16
    return tensor.data.astype("float32") if is_half else tensor.data.copy()


#: The compiled models of a dynamic arm; one serves all shapes of a worker.
_dynamic_models: dict[str, Any] = {}


def build(subject: Any, inputs: list[Any], request: Request) -> Program:
    """`subject` is a `CausalLm` for text, else a `TorchSubject` or an `OnnxSubject`."""
    if request.task == GENERATE:
        from probes.stacks import openvino_generation

        return openvino_generation.build(subject, inputs, request)
    if shared := _dynamic_models.get(request.arm):
        return OpenVinoProgram(shared, shared.create_infer_request())
    core = openvino.Core()
    if isinstance(subject, TorchSubject):
        model = openvino.convert_model(onnx_export.export(subject, inputs, request))
    else:
        model = core.read_model(subject.file)
    weight_bytes = None
    if request.options.get("weights"):
        model = openvino_model.compress(model, request.options["weights"])
        weight_bytes = openvino_model.count_weight_bytes(model)
    compiled = core.compile_model(
        model, "CPU", openvino_model.configuration(subject.dtype, request)
    )
    if request.options.get("dynamic"):
        _dynamic_models[request.arm] = compiled
    return OpenVinoProgram(compiled, compiled.create_infer_request(), weight_bytes)


def engagement(program: OpenVinoProgram | OpenVinoGeneration, device_inputs: Any) -> Engagement:
    """Return a full share, as a model runs whole or not at all, or that of compressed weights."""
    if program.weight_bytes is not None:
        return openvino_model.weights_engagement(program.compiled, program.weight_bytes)
    facts = openvino_model.describe_compiled(program.compiled)
    layers = ", ".join(f"{count} {kind}" for kind, count in sorted(facts["layers"].items()))
    devices, precision = "+".join(facts["devices"]), facts["inference_precision"]
    proof = (
        f"the compiled model runs as a whole on {devices} in {precision} "
        f"with {facts['threads']} threads: {layers}"
    )
    return Engagement(1.0, proof)


def integration(subject: Any, request: Request) -> str:
    hint = openvino_model.PRECISION_HINTS.get(request.dtype, "f32")
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
    array = BITS_AS_BFLOAT16 if request.dtype == "bfloat16" else "tensor.numpy()"
    converted, package = openvino_model.conversion("model" if is_file else "exported", request)
    return f"""\
{package}import openvino
import torch

{"" if is_file else export}converted = {converted}
# Without the hint OpenVINO chooses the precision, such as bfloat16 on some CPUs.
compiled = openvino.compile_model(converted, "CPU", {{"INFERENCE_PRECISION_HINT": "{hint}", "PERFORMANCE_HINT": "LATENCY"}})
# Each call:
output = compiled([{array} for tensor in inputs])  # output[0] and so on, in the order of the model
"""  # noqa: E501 - the lines are counted, so they are not wrapped
