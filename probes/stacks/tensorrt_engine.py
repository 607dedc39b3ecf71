"""Build, load and execute engines of TensorRT, or of TensorRT for RTX with the same interface."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, TypeAlias

import torch

from probes import timing
from probes.adapter import AS_LIST, Engagement, Request, UnsupportedError
from probes.files import replace_when_complete
from probes.stacks import cuda_graphs, onnx_export, pytorch
from probes.stacks.cuda_graphs import CapturedProgram
from probes.subjects.by_request import Model
from probes.subjects.outputs import collect

#: PyTorch's names of TensorRT's types.
TORCH_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}

#: Shapes of a model's inputs at one batch size.
Shapes: TypeAlias = list[tuple[int, ...]]


def versions(trt: Any) -> dict[str, str]:
    return {trt.__name__: trt.__version__, **pytorch.versions("onnx", "onnxscript")}


def settings(request: Request) -> dict[str, str]:
    graph = str(bool(request.options.get("cuda_graph")))
    return {**pytorch.apply_settings(request), "typing": "strong", "cuda_graph": graph}


#: Parts of the log lines about a lack of memory, for a whole build or for one skipped tactic.
MEMORY_PHRASES = ("out of memory", "outofmemory", "insufficient memory", "could not be allocated")


class EngineLog:
    """The lines of TensorRT's log that explain a failure; its return values give no reason."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.memory: list[str] = []

    def record(self, message: str, *, is_error: bool) -> None:
        if is_error:
            self.errors.append(message)
        if any(phrase in message.lower() for phrase in MEMORY_PHRASES):
            self.memory.append(message)

    def failure(self, what: str) -> Exception:
        """Return an exception with the first line about memory, else the first error."""
        if self.memory:
            return MemoryError(f"{what}: {self.memory[0]}")
        return RuntimeError(
            f"{what}: {self.errors[0] if self.errors else 'TensorRT logged no reason'}"
        )


def make_logger(trt: Any, log: EngineLog) -> Any:

    class Logger(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if int(severity) <= int(trt.ILogger.Severity.WARNING):
                log.record(message, is_error=int(severity) <= int(trt.ILogger.Severity.ERROR))

    return Logger()


def build_plan(
    trt: Any, file: pathlib.Path, shapes_by_batch_size: list[Shapes], log: EngineLog
) -> Any:
    """Return the serialised engine for an ONNX file.

    If the file leaves a dimension free, the engine has an optimisation profile for each of
    `shapes_by_batch_size`. Raise `UnsupportedError` with the first error of TensorRT's parser.
    """
    logger = make_logger(trt, log)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    # It reads the file itself, because weights in separate files lie next to it.
    if not parser.parse_from_file(str(file)):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        reason = reasons[0] if reasons else "no reason given"
        raise UnsupportedError(f"its ONNX parser refuses the model: {reason}")
    config = builder.create_builder_config()
    # TF32 is on by default, while eager PyTorch computes float32 products at full precision.
    config.clear_flag(trt.BuilderFlag.TF32)
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    if any(-1 in tuple(value.shape) for value in inputs):
        # One for each batch size, so that its kernels need not suit other sizes.
        for shapes in shapes_by_batch_size:
            profile = builder.create_optimization_profile()
            for value, shape in zip(inputs, shapes, strict=True):
                profile.set_shape(value.name, shape, shape, shape)
            config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise log.failure("no engine was built")
    return plan


def load_engine(trt: Any, plan: Any, log: EngineLog) -> Any:
    """Load the plan; raise `UnsupportedError` if TensorRT refuses it, as for another GPU."""
    engine = trt.Runtime(make_logger(trt, log)).deserialize_cuda_engine(plan)
    if engine is not None:
        return engine
    failure = log.failure("the engine does not load")
    raise failure if isinstance(failure, MemoryError) else UnsupportedError(str(failure))


@dataclasses.dataclass(frozen=True)
class EngineContext:
    """An engine's execution context for the shapes of one batch size, with its outputs."""

    context: Any
    engine: Any
    stream: torch.cuda.Stream
    inputs: dict[str, torch.dtype]
    outputs: dict[str, torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    log: EngineLog

    def feed(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        device_inputs = tuple(
            torch.from_numpy(array).to("cuda", dtype)
            for array, dtype in zip(inputs, self.inputs.values(), strict=True)
        )
        timing.synchronise()  # the engine runs on another stream than the copies
        return device_inputs

    def __call__(self, device_inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Run on the current stream if that is a side stream, as in a capture, else on our own."""
        for name, tensor, shape in zip(self.inputs, device_inputs, self.shapes, strict=True):
            if tuple(tensor.shape) != shape:
                message = f"the engine has a profile for {shape}, not for {tuple(tensor.shape)}"
                raise ValueError(message)
            self.context.set_tensor_address(name, tensor.data_ptr())
        stream = torch.cuda.current_stream().cuda_stream or self.stream.cuda_stream
        if not self.context.execute_async_v3(stream):
            raise self.log.failure("the engine did not run")
        return list(self.outputs.values())

    def collect(self, output: list[torch.Tensor]) -> list[Any]:
        return collect(output)


def open_context(
    trt: Any, engine: Any, inputs: list[Any], profile: int, log: EngineLog
) -> EngineContext:
    # With the default runtime config: TensorRT for RTX 1.4.0.76 crashes at the second profile if it
    # is configured to compile its kernels at once.
    context = engine.create_execution_context()
    if context is None:
        raise log.failure("no execution context was made")
    stream = torch.cuda.Stream()
    context.set_optimization_profile_async(profile, stream.cuda_stream)
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    input_names = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    for name, array in zip(input_names, inputs, strict=True):
        if not context.set_input_shape(name, array.shape):
            raise log.failure(f"no profile takes {name} of the shape {array.shape}")
    outputs = {}
    for name in (name for name in names if name not in input_names):
        shape = tuple(context.get_tensor_shape(name))
        outputs[name] = torch.empty(shape, dtype=torch_type_of(engine, name), device="cuda")
        context.set_tensor_address(name, outputs[name].data_ptr())
    input_types = {name: torch_type_of(engine, name) for name in input_names}
    stream.synchronize()
    shapes = tuple(tuple(array.shape) for array in inputs)
    return EngineContext(context, engine, stream, input_types, outputs, shapes, log)


def torch_type_of(engine: Any, name: str) -> torch.dtype:
    """Return the type of a tensor; raise `UnsupportedError` for one that PyTorch does not have."""
    kind = engine.get_tensor_dtype(name).name
    if kind not in TORCH_TYPES:
        raise UnsupportedError(f"{name} has the type {kind}, which PyTorch does not have")
    dtype: torch.dtype = getattr(torch, TORCH_TYPES[kind])
    return dtype


#: Engines with the log of their build, by file, kept as long as the worker runs: one serves all
#: batch sizes.
_engines: dict[pathlib.Path, tuple[Any, EngineLog]] = {}


def load_or_build_engine(
    trt: Any, model: pathlib.Path, subject: Model, request: Request, file: pathlib.Path
) -> tuple[Any, EngineLog]:
    if file not in _engines:
        log = EngineLog()
        if not file.exists():
            sized = subject.at(request) if request.lengths else subject
            inputs = [sized.inputs(size, 0) for size in request.batch_sizes]
            shapes = [[array.shape for array in each] for each in inputs]
            plan = build_plan(trt, model, shapes, log)
            with replace_when_complete(file) as partial:
                partial.write_bytes(plan)
        _engines[file] = load_engine(trt, file.read_bytes(), log), log
    return _engines[file]


def build(
    trt: Any, subject: Model, inputs: list[Any], request: Request
) -> EngineContext | CapturedProgram:
    model = onnx_export.model_file(subject, inputs, request, "batch")
    file = pathlib.Path(request.scratch_directory) / f"{model.parent.name}.engine"
    engine, log = load_or_build_engine(trt, model, subject, request, file)
    has_profiles = engine.num_optimization_profiles > 1
    profile = request.batch_sizes.index(onnx_export.rows_of(inputs)) if has_profiles else 0
    context = open_context(trt, engine, inputs, profile, log)
    return cuda_graphs.capture(context, inputs) if request.options.get("cuda_graph") else context


def engagement(program: EngineContext | CapturedProgram, device_inputs: Any) -> Engagement:
    context = program.program if isinstance(program, CapturedProgram) else program
    assert isinstance(context, EngineContext)  # noqa: S101 - for mypy; `build` captures nothing else
    launches = cuda_graphs.count_launches(lambda: program(device_inputs))
    if isinstance(program, CapturedProgram):
        return cuda_graphs.graph_engagement(launches)
    layers, kernels = context.engine.num_layers, launches.kernels
    proof = f"an engine of {layers} layers launched {kernels} kernels"
    return Engagement(1.0 if kernels else 0.0, proof)


def integration(module: str, subject: Model, request: Request) -> str:  # noqa: ARG001
    export, file = onnx_export.integration(request)
    types = ", ".join(f'"{kind}": torch.{name}' for kind, name in TORCH_TYPES.items())
    run = "# Each call:\ncontext.execute_async_v3(stream.cuda_stream)\nstream.synchronize()\n"
    capture = """\
context.execute_async_v3(stream.cuda_stream)  # once before the capture
stream.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    context.execute_async_v3(stream.cuda_stream)
# Each call:
graph.replay()
torch.cuda.synchronize()
"""
    return f"""\
import pathlib

import {module} as trt
import torch

{export}logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file({file}), [parser.get_error(index).desc() for index in range(parser.num_errors)]
config = builder.create_builder_config()
config.clear_flag(trt.BuilderFlag.TF32)
pathlib.Path("model.engine").write_bytes(builder.build_serialized_network(network, config))

engine = trt.Runtime(logger).deserialize_cuda_engine(pathlib.Path("model.engine").read_bytes())
context = engine.create_execution_context()
types = {{{types}}}
names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
tensors = {{name: tensor.cuda().contiguous() for name, tensor in zip(names, inputs)}}
for name in names[len(inputs):]:
    tensors[name] = torch.empty(tuple(context.get_tensor_shape(name)), dtype=types[engine.get_tensor_dtype(name).name], device="cuda")
for name, tensor in tensors.items():
    context.set_tensor_address(name, tensor.data_ptr())
stream = torch.cuda.Stream()
{capture if request.options.get("cuda_graph") else run}output = [tensors[name] for name in names[len(inputs):]]{AS_LIST}
"""  # noqa: E501 - the lines are counted, so they are not wrapped
