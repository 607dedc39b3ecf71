"""Open, feed and describe the sessions of the ONNX Runtime workflows."""

from __future__ import annotations

import ctypes
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import onnx
import onnxruntime as ort
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError

from probes.adapter import AS_LIST, Engagement, Request, StartLines, UnsupportedError
from probes.stacks import onnx_export, onnxruntime_quantisation, pytorch
from probes.stacks.onnx_export import Free
from probes.stacks.pytorch import TorchProgram
from probes.subjects.by_request import Model

IO_BINDING = "io-binding"
CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
#: Eager PyTorch computes float32 products at full precision, so TF32 is off here too.
CUDA_OPTIONS = {"use_tf32": "0"}
#: The library of each provider that is loaded on demand, in the folder of ONNX Runtime's own.
LIBRARIES = {
    CUDA: "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}

#: Operators whose kernels may race where several indices are equal: with several threads, updates
#: are lost. https://github.com/microsoft/onnxruntime/issues/18048 and
#: https://github.com/microsoft/onnxruntime/issues/23396
NONDETERMINISTIC_OPERATORS = {"ScatterND", "ScatterElements"}

#: Names of providers with their options; those after the first take the nodes that it leaves.
Providers: TypeAlias = Sequence[tuple[str, dict[str, str]]]


def versions() -> dict[str, str]:
    return {"onnxruntime": ort.__version__, **pytorch.versions("onnx", "onnxscript")}


def settings(request: Request) -> dict[str, str]:
    threads = {"intra_op_num_threads": str(session_threads(request))}
    return {**pytorch.apply_settings(request), **threads}


def session_threads(request: Request) -> int:
    return int(request.options.get("threads", request.threads))


def session_options(request: Request) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = session_threads(request)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def open_session(
    file: pathlib.Path, providers: Providers, request: Request
) -> ort.InferenceSession:
    """Open the file; raise `UnsupportedError` if the session lacks the first of `providers`."""
    provider = providers[0][0]
    available = ort.get_available_providers()
    if provider not in available:
        message = f"this build of ONNX Runtime has no {provider}; it has {', '.join(available)}"
        raise UnsupportedError(message)
    try:
        session = ort.InferenceSession(
            file, session_options(request), providers=[*providers], enable_fallback=0
        )
    except NoKernelError as problem:
        raise UnsupportedError(*explain_missing(str(problem), file)) from None
    # Despite `enable_fallback=0`, a provider that fails to load only leaves a line in the log.
    if provider not in session.get_providers():
        reason = library_load_error(provider)
        raise UnsupportedError(f"ONNX Runtime left {provider} out of the session: {reason}")
    return session


def library_load_error(provider: str) -> str:
    """Load the provider's library and return the loader's error, which ONNX Runtime only logs."""
    library = pathlib.Path(ort.__file__).parent / "capi" / LIBRARIES.get(provider, "")
    if library.is_file():
        try:
            ctypes.CDLL(str(library))
        except OSError as problem:
            return str(problem)
    return "see its log"


#: Sessions of files with free dimensions, kept as long as the worker runs: one serves all shapes.
_sessions: dict[pathlib.Path, ort.InferenceSession] = {}


def build(
    subject: Model,
    inputs: list[Any],
    request: Request,
    *,
    providers: Providers = ((CPU, {}),),
    free: Free = None,
) -> TorchProgram:
    """Open a session of the file that is exported for `inputs`, or with these `free` dimensions."""
    free = free or ("every" if request.options.get("dynamic") else None)
    file, quantised = onnx_export.model_file(subject, inputs, request, free), None
    if weights := request.options.get("weights"):
        file = quantised = onnxruntime_quantisation.quantise(file, weights, request)
    session = _sessions.get(file) if free else None
    if session is None:
        session = open_session(file, providers, request)
    if free:
        _sessions[file] = session
    # Each program has its own binding, which is for the shapes of one batch size.
    provider, binding = providers[0][0], session.io_binding()
    if request.options["feeding"] == IO_BINDING:
        for value in session.get_outputs():
            binding.bind_output(value.name, device_of(provider))
    call = pytorch.compile_call(
        integration(subject, request, provider),
        session=session,
        binding=binding,
        onnxruntime=ort,
        torch=torch,
    )
    facts = {"session": session, "provider": provider, "quantised": quantised}
    facts["limits"] = onnx_export.size_limits(request)
    return TorchProgram(subject, call, facts=facts)


def device_of(provider: str) -> str:
    return "cpu" if provider == CPU else "cuda"


def engagement(program: TorchProgram, device_inputs: Any) -> Engagement:  # noqa: ARG001
    """Return the share of the nodes on the provider or, if quantised, of quantised weights."""
    placed, operators = onnxruntime_quantisation.count_nodes(program.facts["session"])
    if quantised := program.facts["quantised"]:
        return onnxruntime_quantisation.engagement(quantised, operators)
    provider = program.facts["provider"]
    nodes, taken = sum(placed.values()), placed[provider]
    share = taken / nodes if nodes else 0.0
    proof = f"{taken} of {nodes} nodes are placed on {provider}"
    return Engagement(share, proof, size_limits=program.facts["limits"])


def nondeterministic_operators(program: TorchProgram) -> list[str]:
    """Return none for a session of one thread."""
    session = program.facts["session"]
    if session.get_session_options().intra_op_num_threads == 1:
        return []
    _, operators = onnxruntime_quantisation.count_nodes(session)
    return sorted({*operators} & NONDETERMINISTIC_OPERATORS)


#: Lines that call a session with arrays, and with values where numpy lacks the element type.
HOST_ARRAYS = f"""\
# Each call:
feeds = {{value.name: tensor.cpu().numpy() for value, tensor in zip(session.get_inputs(), inputs)}}
output = session.run(None, feeds){AS_LIST}
"""
HOST_VALUES = f"""\
# Each call, with values because numpy has no bfloat16:
feeds = {{value.name: onnxruntime.OrtValue.from_dlpack(tensor.cpu().contiguous()) for value, tensor in zip(session.get_inputs(), inputs)}}
output = [torch.from_dlpack(value) for value in session.run_with_ort_values(None, feeds)]{AS_LIST}
"""  # noqa: E501 - the lines are counted, so they are not wrapped


def integration(subject: Model, request: Request, provider: str = CPU) -> str:
    device = device_of(provider)
    bind = (
        "binding.bind_cpu_input(value.name, tensor.contiguous().numpy())"
        if device == "cpu" and subject.dtype != "bfloat16"
        else "binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.from_dlpack(tensor.contiguous()))"  # noqa: E501 - the lines are counted, so they are not wrapped
    )
    binding = f"""\
binding = session.io_binding()
for value in session.get_outputs():
    binding.bind_output(value.name, "{device}")
# Each call, which binds its inputs:
for value, tensor in zip(session.get_inputs(), inputs):
    {bind}
session.run_with_iobinding(binding)
output = [torch.from_dlpack(value) for value in binding.get_outputs()]{AS_LIST}
"""
    named = f'"{provider}"'
    if provider == CUDA:
        named = f"({named}, {json.dumps(CUDA_OPTIONS)})"
    export, file = _writing_lines(request)
    options, given = "", ""
    if "threads" in request.options:
        options, given = f"{THREAD_LINES}{session_threads(request)}\n", ", options"
    host = HOST_VALUES if subject.dtype == "bfloat16" else HOST_ARRAYS
    lines = f"""\
{IMPORTS}{export}{options}session = onnxruntime.InferenceSession({file}{given}, providers=[{named}])
assert session.get_providers()[0] == "{provider}", "ONNX Runtime fell back without an error; see its log for the reason"
{binding if request.options["feeding"] == IO_BINDING else host}"""  # noqa: E501 - the lines are counted, so they are not wrapped
    return onnx_export.with_limits(lines, request)


IMPORTS = "import onnxruntime\nimport torch\n\n"
THREAD_LINES = "options = onnxruntime.SessionOptions()\noptions.intra_op_num_threads = "


def _writing_lines(request: Request) -> tuple[str, str]:
    """Return the lines that write the file, and the expression for its path."""
    free = bool(request.options.get("dynamic")) and request.subject["kind"] != "onnx"
    export, file = onnx_export.integration(request, is_free=free)
    if not request.options.get("weights"):
        return export, file
    quantise = onnxruntime_quantisation.integration(request.options["weights"], file)
    return export + quantise, '"quantised.onnx"'


def starts(subject: Model, request: Request, provider: str = CPU) -> dict[str, StartLines]:
    """Return the way that ships the file; none if the model itself is a file."""
    export, _ = _writing_lines(request)
    if not export:
        return {}
    start = integration(subject, request, provider).replace(export, "", 1)
    return {"onnx-file": StartLines(start=start, write=IMPORTS + export)}


NO_KERNEL = re.compile(r"implementation for (?P<operator>\w+)\(\d+\) node with name '(?P<node>.*)'")
#: Types that the kernels of most operators have.
COMMON_TYPES = {"FLOAT", "INT32", "INT64", "BOOL"}


def explain_missing(message: str, file: pathlib.Path) -> tuple[str, str | None]:
    """Return why ONNX Runtime raised `message`, and what helps if a type is the cause."""
    missing = NO_KERNEL.search(message)
    if missing is None:
        return message, None
    types = sorted(_types_of(file, missing["node"]) - COMMON_TYPES)
    reason = f"ONNX Runtime has no kernel for the operator {missing['operator']}"
    if not types:
        return f"{reason} of node {missing['node']}", None
    listed = " and ".join(name.lower() for name in types)
    fix = (
        f"compute this part of the model in float32: change its layers, or use --dtype float32 if"
        f" the code of the model does not convert to {listed}"
    )
    return f"{reason} in {listed}, as in node {missing['node']}", fix


def _types_of(file: pathlib.Path, name: str) -> set[str]:
    graph = onnx.load(file, load_external_data=False).graph
    node = next((node for node in graph.node if node.name == name), None)
    if node is None:
        return set()
    values = (*graph.value_info, *graph.input, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {value.name: value.data_type for value in graph.initializer}
    used = (types.get(value) for value in (*node.input, *node.output))
    return {onnx.TensorProto.DataType.Name(number) for number in used if number}
