"""Build and load engines with TensorRT or TensorRT for RTX, whose interfaces are the same."""

from __future__ import annotations

import pathlib
from typing import Any

from probes.adapter import UnsupportedError

#: Shapes of a model's inputs at one batch size.
Shapes = list[tuple[int, ...]]

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
        """Return the exception for a step that failed.

        Its reason is the first line about memory, else the first error.
        """
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
    trt: Any,
    file: pathlib.Path,
    shapes_by_batch_size: list[Shapes],
    log: EngineLog,
    target: str = "",
) -> Any:
    """Return the serialised engine for an ONNX file.

    If the file leaves a dimension free, the engine has an optimisation profile for each of
    `shapes_by_batch_size`. `target`, such as `sm_89`, is a GPU that need not be present.
    """
    logger = make_logger(trt, log)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parse_model(trt.OnnxParser(network, logger), file)
    config = builder.create_builder_config()
    # TF32 is on by default, while eager PyTorch computes float32 products at full precision.
    config.clear_flag(trt.BuilderFlag.TF32)
    if target:
        set_target(trt, config, target)
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    if any(-1 in tuple(value.shape) for value in inputs):
        for shapes in shapes_by_batch_size:
            config.add_optimization_profile(fixed_profile(builder, inputs, shapes))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise log.failure("no engine was built")
    return plan


def parse_model(parser: Any, file: pathlib.Path) -> None:
    """Parse an ONNX file, or raise `UnsupportedError` with the parser's first error.

    The parser reads the file itself, because weights in separate files lie next to it.
    """
    if not parser.parse_from_file(str(file)):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        reason = reasons[0] if reasons else "no reason given"
        message = f"its ONNX parser refuses the model: {reason}"
        raise UnsupportedError(message)


def set_target(trt: Any, config: Any, target: str) -> None:
    capability = getattr(trt.ComputeCapability, target.replace("_", "").upper(), None)
    if capability is None:
        known = ", ".join(
            sorted(name for name in vars(trt.ComputeCapability) if name.startswith("SM"))
        )
        message = f"{trt.__name__} {trt.__version__} does not build for {target}; it knows {known}"
        raise UnsupportedError(message)
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)


def fixed_profile(builder: Any, inputs: list[Any], shapes: Shapes) -> Any:
    """Return a profile for one batch size, so that its kernels need not suit other sizes."""
    profile = builder.create_optimization_profile()
    for value, shape in zip(inputs, shapes, strict=True):
        profile.set_shape(value.name, shape, shape, shape)
    return profile


def load_engine(trt: Any, plan: Any, log: EngineLog) -> Any:
    """Return the engine of a plan.

    Raise `UnsupportedError` with TensorRT's reason if it refuses the plan, for example one that was
    built for another GPU.
    """
    runtime = trt.Runtime(make_logger(trt, log))
    engine = runtime.deserialize_cuda_engine(plan)
    if engine is not None:
        return engine
    failure = log.failure("the engine does not load")
    raise failure if isinstance(failure, MemoryError) else UnsupportedError(str(failure))
