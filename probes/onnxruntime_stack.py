"""What the ONNX Runtime workflows share: the model as ONNX, sessions that say where their nodes ran, host feeding and IO binding."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from probes import torch_stack
from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.subjects.onnx_file import ARRAY_TYPES, OnnxSubject
from probes.subjects.opening import TorchSubject, open_torch_subject

IO_BINDING = "io-binding"


def versions() -> dict[str, str]:
    """Return the versions of the runtime and of what exports for it."""
    return {"onnxruntime": ort.__version__, **torch_stack.versions("onnx", "onnxscript")}


def settings(request: Request) -> dict[str, str]:
    """Return the session's settings beside those of the exporting PyTorch."""
    return {**torch_stack.apply_settings(request), "intra_op_num_threads": str(request.threads)}


def open_subject(request: Request) -> TorchSubject | OnnxSubject:
    """Open an ONNX file as it is, anything else as a PyTorch module to be exported."""
    return OnnxSubject(request) if request.subject["kind"] == "onnx" else open_torch_subject(request)


def model_file(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request) -> pathlib.Path:
    """Return the model as an ONNX file, exporting it for the shapes of `inputs` unless that was done."""
    if isinstance(subject, OnnxSubject):
        return pathlib.Path(subject.file)
    tensors = subject.tensors(inputs)
    folder = pathlib.Path(request.scratch_directory) / f"batch-{len(inputs[0])}"
    if folder.exists():
        return folder / "model.onnx"
    with torch_stack.ordinary_mode():
        program = torch.onnx.export(subject.module, tuple(tensor.clone() for tensor in tensors), dynamo=True, verbose=False)
    if program is None:
        message = "torch.onnx.export returned no program"
        raise RuntimeError(message)
    # Renamed when whole: a worker that is ended meanwhile leaves nothing that looks like a model.
    beside = folder.with_name(f"part-{folder.name}")
    beside.mkdir(parents=True, exist_ok=True)
    program.save(beside / "model.onnx", external_data=True)
    beside.rename(folder)
    return folder / "model.onnx"


def open_session(file: pathlib.Path, provider: str, request: Request) -> ort.InferenceSession:
    """Open a session that may not quietly fall back to another provider and records where each node went."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if provider not in ort.get_available_providers():
        message = f"this build of ONNX Runtime has no {provider}; it has {', '.join(ort.get_available_providers())}"
        raise UnsupportedError(message)
    return ort.InferenceSession(file, options, providers=[provider], enable_fallback=0)


@dataclasses.dataclass(frozen=True)
class HostFeeding:
    """numpy arrays in, numpy arrays out: the way most examples show."""

    session: ort.InferenceSession

    def feed(self, inputs: list[Any]) -> dict[str, Any]:
        """Give the arrays the names and types that the session declares."""
        return named_arrays(self.session, inputs)

    def __call__(self, fed: dict[str, Any]) -> list[Any]:
        """Run once; on a device this copies in and out."""
        return self.session.run(None, fed)  # type: ignore[no-any-return]

    def collect(self, output: list[Any]) -> list[Any]:
        """Return the arrays as they are."""
        return output


@dataclasses.dataclass(frozen=True)
class IoBinding:
    """Inputs and outputs stay where they are: nothing is copied or allocated by a call."""

    session: ort.InferenceSession
    device: str

    def feed(self, inputs: list[Any]) -> Any:
        """Bind the inputs, run once to learn the outputs' shapes, and bind outputs of those shapes."""
        binding = self.session.io_binding()
        for name, array in named_arrays(self.session, inputs).items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, self.device))
        names = [value.name for value in self.session.get_outputs()]
        for name in names:
            binding.bind_output(name, self.device)
        self.session.run_with_iobinding(binding)
        for name, made in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, made)
        return binding

    def __call__(self, fed: Any) -> Any:
        """Run once into the bound outputs."""
        self.session.run_with_iobinding(fed)
        return fed

    def collect(self, output: Any) -> list[Any]:
        """Copy the bound outputs to the host."""
        return [value.numpy() for value in output.get_outputs()]


def named_arrays(session: ort.InferenceSession, inputs: list[Any]) -> dict[str, Any]:
    """Return `inputs` by the session's input names, in its types; raise `UnsupportedError` for a type numpy does not have."""
    declared = session.get_inputs()
    missing = [value.type for value in declared if value.type not in ARRAY_TYPES]
    if missing:
        message = f"{missing[0]} cannot be fed through numpy"
        raise UnsupportedError(message)
    return {value.name: np.ascontiguousarray(array, dtype=ARRAY_TYPES[value.type]) for value, array in zip(declared, inputs, strict=True)}


def build(subject: TorchSubject | OnnxSubject, inputs: list[Any], request: Request, provider: str, device: str) -> HostFeeding | IoBinding:
    """Export, open the session on `provider`, and feed it the way the options say."""
    session = open_session(model_file(subject, inputs, request), provider, request)
    return IoBinding(session, device) if request.options["feeding"] == IO_BINDING else HostFeeding(session)


def engagement(program: HostFeeding | IoBinding, fed: Any) -> Engagement:  # noqa: ARG001
    """Return the share of the session's nodes that its first provider took."""
    wanted = program.session.get_providers()[0]
    placed: collections.Counter[str] = collections.Counter()
    for part in program.session.get_provider_graph_assignment_info():
        placed[part.ep_name] += len(part.get_nodes())
    nodes = sum(placed.values())
    share = placed[wanted] / nodes if nodes else 0.0
    return Engagement(share, f"{placed[wanted]} of {nodes} nodes are placed on {wanted}", {"nodes": dict(placed)})
