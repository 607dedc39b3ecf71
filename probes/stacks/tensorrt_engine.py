"""What TensorRT and TensorRT for RTX share: ONNX -> engine file -> execution on PyTorch's tensors.

The two have one interface.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import torch

from probes.adapter import UnsupportedError
from probes.protocol import Engagement, Request
from probes.stacks import cuda_graphs, onnx_export, pytorch, pytorch_kernels
from probes.stacks.cuda_graphs import CapturedProgram
from probes.subjects.opening import collect, open_torch_subject

#: How TensorRT says, in its log, that memory was short: for the build as a whole, or for a tactic
#: that it then left out.
MEMORY_WORDS = ("out of memory", "outofmemory", "insufficient memory", "could not be allocated")
TORCH_TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "BOOL": torch.bool,
}


class Log:
    """What TensorRT logs, which is the only place where it gives reasons."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.memory: list[str] = []

    def take(self, message: str, *, is_error: bool) -> None:
        """Keep a message if it is an error or about memory."""
        if is_error:
            self.errors.append(message)
        if any(words in message.lower() for words in MEMORY_WORDS):
            self.memory.append(message)

    def problem(self, what: str) -> Exception:
        """Return what to raise when `what` gave nothing: the reason is the first error logged, or that memory was short."""
        if self.memory:
            return MemoryError(f"{what}: {self.memory[0]}")
        return RuntimeError(
            f"{what}: {self.errors[0] if self.errors else 'TensorRT logged no reason'}"
        )


def logger_of(trt: Any, log: Log) -> Any:
    """Return a logger of the library's own kind that also prints, so that the worker's log has everything."""

    class Logger(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if int(severity) <= int(trt.ILogger.Severity.WARNING):
                log.take(message, is_error=int(severity) <= int(trt.ILogger.Severity.ERROR))

    return Logger()


def settings(request: Request) -> dict[str, str]:
    """Return the settings of the exporting PyTorch, and that the engine's types are the model's own."""
    return {
        **pytorch.apply_settings(request),
        "typing": "strong",
        "cuda_graph": str(bool(request.options.get("cuda_graph"))),
    }


def open_subject(request: Request) -> Any:
    """Open an ONNX file as it is, anything else as a PyTorch module to be exported."""
    if request.subject["kind"] == "onnx":
        from probes.subjects.onnx_file import OnnxSubject  # noqa: PLC0415 - its reference needs ONNX Runtime, which modules do not

        return OnnxSubject(request)
    return open_torch_subject(request)


def fed_shapes(subject: Any, request: Request) -> list[list[tuple[int, ...]]]:
    """Return the shapes of the inputs at each batch size."""
    return [[array.shape for array in subject.inputs(size, 0)] for size in request.batch_sizes]


def build_plan(
    trt: Any, file: pathlib.Path, shapes: list[list[tuple[int, ...]]], log: Log, target: str = ""
) -> Any:
    """Return the serialised engine for an ONNX file, with an optimisation profile for each list of `shapes` where the file leaves any free.

    `target`, such as `sm_89`, is a GPU that need not be here.
    """
    logger = logger_of(trt, log)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    # From the file, so that weights beside it are read where they are: a message may hold 2 GB
    # only.
    if not parser.parse_from_file(str(file)):
        reasons = [parser.get_error(number).desc() for number in range(parser.num_errors)]
        message = (
            f"its ONNX parser refuses the model: {reasons[0] if reasons else 'no reason given'}"
        )
        raise UnsupportedError(message)
    config = builder.create_builder_config()
    # It is set unless it is cleared, and eager PyTorch leaves float32 at full precision.
    config.clear_flag(trt.BuilderFlag.TF32)
    if target:
        aim_at(trt, config, target)
    inputs = [network.get_input(place) for place in range(network.num_inputs)]
    if any(-1 in tuple(value.shape) for value in inputs):
        for each in shapes:
            config.add_optimization_profile(fixed_profile(builder, inputs, each))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise log.problem("no engine was built")
    return plan


def aim_at(trt: Any, config: Any, target: str) -> None:
    """Have the engine built for `target`; raise `UnsupportedError` for one that the library does not know."""
    capability = getattr(trt.ComputeCapability, target.replace("_", "").upper(), None)
    if capability is None:
        known = ", ".join(
            sorted(name for name in vars(trt.ComputeCapability) if name.startswith("SM"))
        )
        message = f"{trt.__name__} {trt.__version__} does not build for {target}; it knows {known}"
        raise UnsupportedError(message)
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)


def fixed_profile(builder: Any, inputs: list[Any], shapes: list[tuple[int, ...]]) -> Any:
    """Return a profile for these shapes alone, those of one batch size: a range of sizes would have to share its kernels."""
    profile = builder.create_optimization_profile()
    for value, shape in zip(inputs, shapes, strict=True):
        profile.set_shape(value.name, shape, shape, shape)
    return profile


def load_engine(trt: Any, plan: Any, log: Log) -> Any:
    """Return the engine; raise `UnsupportedError` with TensorRT's reason where it refuses, such as one built for another GPU."""
    runtime = trt.Runtime(logger_of(trt, log))
    engine = runtime.deserialize_cuda_engine(plan)
    if engine is not None:
        return engine
    problem = log.problem("the engine does not load")
    raise problem if isinstance(problem, MemoryError) else UnsupportedError(str(problem))


@dataclasses.dataclass(frozen=True)
class Context:
    """An engine's execution context for the shapes of one batch size, with its outputs."""

    context: Any
    engine: Any
    stream: torch.cuda.Stream
    inputs: dict[str, torch.dtype]
    outputs: dict[str, torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    log: Log

    def feed(self, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
        """Put the inputs on the device, in the engine's types."""
        fed = tuple(
            torch.from_numpy(array).to("cuda", dtype)
            for array, dtype in zip(inputs, self.inputs.values(), strict=True)
        )
        pytorch.synchronise()  # the engine runs on another stream than the copies
        return fed

    def __call__(self, fed: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Run once, on the current stream where that is a side stream (as for a capture), else on one of our own."""
        for (name, tensor), shape in zip(
            zip(self.inputs, fed, strict=True), self.shapes, strict=True
        ):
            if tuple(tensor.shape) != shape:
                message = f"the engine has a profile for {shape}, not for {tuple(tensor.shape)}"
                raise ValueError(message)
            self.context.set_tensor_address(name, tensor.data_ptr())
        stream = torch.cuda.current_stream().cuda_stream or self.stream.cuda_stream
        if not self.context.execute_async_v3(stream):
            raise self.log.problem("the engine did not run")
        return list(self.outputs.values())

    def collect(self, output: list[torch.Tensor]) -> list[Any]:
        """Return the outputs on the host."""
        return collect(output)


def open_context(trt: Any, engine: Any, inputs: list[Any], profile: int, log: Log) -> Context:
    """Make an execution context for the shapes of `inputs`, with tensors for the outputs."""
    # As the library makes it: TensorRT for RTX 1.4.0.76, told to make its kernels at once, crashes
    # at the second profile.
    context = engine.create_execution_context()
    stream = torch.cuda.Stream()
    context.set_optimization_profile_async(profile, stream.cuda_stream)
    names = [engine.get_tensor_name(place) for place in range(engine.num_io_tensors)]
    inward = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    for name, array in zip(inward, inputs, strict=True):
        if not context.set_input_shape(name, array.shape):
            raise log.problem(f"no profile takes {name} of the shape {array.shape}")
    outputs = {}
    for name in (name for name in names if name not in inward):
        shape = tuple(context.get_tensor_shape(name))
        outputs[name] = torch.empty(shape, dtype=type_of(engine, name), device="cuda")
        context.set_tensor_address(name, outputs[name].data_ptr())
    types = {name: type_of(engine, name) for name in inward}
    stream.synchronize()
    return Context(
        context, engine, stream, types, outputs, tuple(tuple(array.shape) for array in inputs), log
    )


def type_of(engine: Any, name: str) -> torch.dtype:
    """Return PyTorch's type for a tensor of the engine."""
    kind = engine.get_tensor_dtype(name).name
    if kind not in TORCH_TYPES:
        message = f"{name} has the type {kind}, which PyTorch does not have"
        raise UnsupportedError(message)
    return TORCH_TYPES[kind]


@dataclasses.dataclass(frozen=True)
class Loaded:
    """An engine with the log of its making, kept for all batch sizes that it serves."""

    engine: Any
    log: Log
    #: True for an engine that an earlier process built and saved.
    from_file: bool


#: Engines by their files; they live as long as the worker.
_engines: dict[pathlib.Path, Loaded] = {}


def obtain_engine(
    trt: Any, model: pathlib.Path, subject: Any, request: Request, place: pathlib.Path
) -> Loaded:
    """Return the engine for an ONNX file: the one at hand, else the one an earlier process saved at `place`, else a new one."""
    if place not in _engines:
        log = Log()
        from_file = place.exists()
        if not from_file:
            beside = place.with_suffix(".part")
            beside.write_bytes(build_plan(trt, model, fed_shapes(subject, request), log))
            beside.rename(place)
        _engines[place] = Loaded(load_engine(trt, place.read_bytes(), log), log, from_file)
    return _engines[place]


def build(trt: Any, subject: Any, inputs: list[Any], request: Request) -> Context | CapturedProgram:
    """Export, build or load the engine, and make a context for these shapes; captured as a CUDA graph if the options say so."""
    model = onnx_export.for_any_batch_size(subject, inputs, request)
    place = pathlib.Path(request.scratch_directory) / f"{model.parent.name}.engine"
    loaded = obtain_engine(trt, model, subject, request, place)
    profile = (
        request.batch_sizes.index(len(inputs[0]))
        if loaded.engine.num_optimization_profiles > 1
        else 0
    )
    context = open_context(trt, loaded.engine, inputs, profile, loaded.log)
    return cuda_graphs.capture(context, inputs) if request.options.get("cuda_graph") else context


def engagement(program: Context | CapturedProgram, fed: Any) -> Engagement:
    """Show that the engine runs: its kernels are seen, and no operator of PyTorch's."""
    context = program.program if isinstance(program, CapturedProgram) else program
    assert isinstance(context, Context)  # noqa: S101 - for the type checker: nothing else is captured here
    started = pytorch_kernels.watch(lambda: program(fed))
    facts = {
        **pytorch_kernels.facts(started),
        "layers": context.engine.num_layers,
        "profiles": context.engine.num_optimization_profiles,
        "short_of_memory": len(context.log.memory),
    }
    if isinstance(program, CapturedProgram):
        graphs = pytorch_kernels.engagement_of_graphs(started)
        return Engagement(graphs.share, graphs.proof, facts)
    share = 1.0 if started.kernels else 0.0
    return Engagement(
        share,
        f"an engine of {context.engine.num_layers} layers started {len(started.kernels)} kernels",
        facts,
    )


def integration(module: str, *, cuda_graph: bool) -> str:
    """Return the lines that export, build, save, load and run the engine."""
    run = "context.execute_async_v3(stream.cuda_stream)\nstream.synchronize()\n"
    capture = """\
context.execute_async_v3(stream.cuda_stream)  # once before the capture
stream.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    context.execute_async_v3(stream.cuda_stream)
graph.replay()
torch.cuda.synchronize()
"""
    return f"""\
import pathlib

import {module} as trt
import torch

with torch.no_grad():
    torch.onnx.export(model, inputs, dynamo=True).save("model.onnx", external_data=True)
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file("model.onnx"), [parser.get_error(number).desc() for number in range(parser.num_errors)]
pathlib.Path("model.engine").write_bytes(builder.build_serialized_network(network, builder.create_builder_config()))

engine = trt.Runtime(logger).deserialize_cuda_engine(pathlib.Path("model.engine").read_bytes())
context = engine.create_execution_context()
types = {{"FLOAT": torch.float32, "HALF": torch.float16, "BF16": torch.bfloat16, "INT64": torch.int64}}
names = [engine.get_tensor_name(place) for place in range(engine.num_io_tensors)]
tensors = {{name: tensor.cuda().contiguous() for name, tensor in zip(names, inputs)}}
for name in names[len(inputs):]:
    tensors[name] = torch.empty(tuple(context.get_tensor_shape(name)), dtype=types[engine.get_tensor_dtype(name).name], device="cuda")
for name, tensor in tensors.items():
    context.set_tensor_address(name, tensor.data_ptr())
stream = torch.cuda.Stream()
{capture if cuda_graph else run}output = [tensors[name] for name in names[len(inputs):]]
"""
