"""What the ONNX Runtime workflows share: sessions that say where their nodes ran, and what is built, proven and told about them."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import os
import pathlib
from typing import Any

import onnxruntime as ort

from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.stacks import onnx_export, onnxruntime_feeding, pytorch
from probes.stacks.onnxruntime_feeding import HostFeeding, HostValues, IoBinding, TensorBinding
from probes.subjects.onnx_file import OnnxSubject
from probes.subjects.opening import TorchSubject, open_torch_subject

IO_BINDING = "io-binding"
CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
#: Like eager PyTorch, which leaves float32 products at full precision.
CUDA_OPTIONS = {"use_tf32": "0"}
#: File of each provider that is loaded when a session asks for it, in the folder of ONNX Runtime's
#: own libraries.
LIBRARIES = {
    CUDA: "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}


@dataclasses.dataclass(frozen=True)
class SessionProgram:
    """A session fed in one of the ways, and the provider it was opened for: what it got is a matter of proof."""

    session: ort.InferenceSession
    provider: str
    feeding: HostFeeding | HostValues | IoBinding | TensorBinding

    def feed(self, inputs: list[Any]) -> Any:
        """Turn the arrays into what a run takes."""
        return self.feeding.feed(inputs)

    def __call__(self, fed: Any) -> Any:
        """Run once."""
        return self.feeding(fed)

    def collect(self, output: Any) -> list[Any]:
        """Return the outputs on the host."""
        return self.feeding.collect(output)


def versions() -> dict[str, str]:
    """Return the versions of the runtime and of what exports for it."""
    return {"onnxruntime": ort.__version__, **pytorch.versions("onnx", "onnxscript")}


def settings(request: Request) -> dict[str, str]:
    """Return the session's settings beside those of the exporting PyTorch."""
    return {**pytorch.apply_settings(request), "intra_op_num_threads": str(request.threads)}


def settings_of_tensorrt(request: Request) -> dict[str, str]:
    """Return the same where TensorRT builds; its provider has no option that keeps float32 at full precision, NVIDIA's libraries have."""
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    return {**settings(request), "NVIDIA_TF32_OVERRIDE": "0"}


def open_subject(request: Request) -> TorchSubject | OnnxSubject:
    """Open an ONNX file as it is, anything else as a PyTorch module to be exported."""
    return (
        OnnxSubject(request) if request.subject["kind"] == "onnx" else open_torch_subject(request)
    )


def session_options(request: Request) -> ort.SessionOptions:
    """Return options for a session that records where each node went."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def open_session(
    file: pathlib.Path, providers: list[tuple[str, dict[str, str]]], request: Request
) -> ort.InferenceSession:
    """Open a session on the first of `providers`; raise `UnsupportedError` where ONNX Runtime would quietly take another."""
    provider = providers[0][0]
    if provider not in ort.get_available_providers():
        message = f"this build of ONNX Runtime has no {provider}; it has {', '.join(ort.get_available_providers())}"
        raise UnsupportedError(message)
    session = ort.InferenceSession(
        file, session_options(request), providers=providers, enable_fallback=0
    )
    if (
        provider not in session.get_providers()
    ):  # with no more than a line in the log, whatever `enable_fallback` says
        message = f"ONNX Runtime left {provider} out of the session: {obstacle_of(provider)}"
        raise UnsupportedError(message)
    return session


def obstacle_of(provider: str) -> str:
    """Return the loader's reason why the provider's library does not load; ONNX Runtime has it in its log only."""
    library = pathlib.Path(ort.__file__).parent / "capi" / LIBRARIES.get(provider, "")
    if library.is_file():
        try:
            ctypes.CDLL(str(library))
        except OSError as problem:
            return str(problem)
    return "see its log"


#: One session serves all batch sizes of a model file; it lives as long as the worker.
_sessions: dict[pathlib.Path, ort.InferenceSession] = {}


def build(
    subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request, provider: str
) -> SessionProgram:
    """Export for these shapes, open the session on the processor, and feed it the way the options say."""
    file = onnx_export.for_shapes(subject, inputs, request)
    session = open_session(file, [(provider, {})], request)
    binding = request.options["feeding"] == IO_BINDING
    return SessionProgram(
        session, provider, IoBinding(session, "cpu") if binding else HostFeeding(session)
    )


def build_on_gpu(
    subject: TorchSubject | OnnxSubject,
    inputs: list[Any],
    request: Request,
    providers: list[tuple[str, dict[str, str]]],
) -> SessionProgram:
    """Export for any batch size where the model allows it, open one session for all of them, and feed it the way the options say."""
    file = onnx_export.for_any_batch_size(subject, inputs, request)
    if file not in _sessions:
        _sessions[file] = open_session(file, providers, request)
    return gpu_program(_sessions[file], providers[0][0], request)


def gpu_program(session: ort.InferenceSession, provider: str, request: Request) -> SessionProgram:
    """Return the session fed from the host or with tensors that stay on the GPU."""
    if request.options["feeding"] == IO_BINDING:
        return SessionProgram(session, provider, TensorBinding(session, request.device))
    return SessionProgram(session, provider, onnxruntime_feeding.host(session))


def engagement(program: SessionProgram, fed: Any) -> Engagement:  # noqa: ARG001
    """Return the share of the session's nodes that the provider it was opened for took."""
    placed: collections.Counter[str] = collections.Counter()
    for part in program.session.get_provider_graph_assignment_info():
        placed[part.ep_name] += len(part.get_nodes())
    nodes, taken = sum(placed.values()), placed[program.provider]
    share = taken / nodes if nodes else 0.0
    return Engagement(
        share, f"{taken} of {nodes} nodes are placed on {program.provider}", {"nodes": dict(placed)}
    )


def integration(request: Request, provider: str, opened: str | None = None) -> str:
    """Return the lines that export, open the session (unless `opened` does that) and run it."""
    device = "cpu" if provider == CPU else "cuda"
    binding = f"""\
binding = session.io_binding()
for value, tensor in zip(session.get_inputs(), inputs):
    binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.from_dlpack(tensor.contiguous()))
for value in session.get_outputs():
    binding.bind_output(value.name, "{device}")
session.run_with_iobinding(binding)
output = [torch.from_dlpack(value) for value in binding.get_outputs()]
"""
    plain = f'session = onnxruntime.InferenceSession("model.onnx", providers=["{provider}"])'
    host = """\
feeds = {value.name: tensor.cpu().numpy() for value, tensor in zip(session.get_inputs(), inputs)}
output = session.run(None, feeds)
"""
    return f"""\
import onnxruntime
import torch

with torch.no_grad():
    torch.onnx.export(model, inputs, dynamo=True).save("model.onnx", external_data=True)
{opened or plain}
assert session.get_providers()[0] == "{provider}", "ONNX Runtime fell back without an error; its log says why"
{binding if request.options["feeding"] == IO_BINDING else host}"""
