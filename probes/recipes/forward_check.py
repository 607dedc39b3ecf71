"""The check script of a recipe: open, build, compare with eager PyTorch, warm up, time.

The source of `check_and_time` and of everything it calls becomes part of each recipe for a forward
pass; see `advisor.recipes.compose`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from probes.checking.deviation import root_mean_square, sample
from probes.checking.mask_values import subtract, unmasked
from probes.checking.rules import Rules, allowed_error, rules_for
from probes.recipes.alternating_timing import TimedProgram, time_alternately

#: Environment variables that move the caches of compilers and drivers, with a folder for each.
CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "VLLM_CACHE_ROOT": "vllm",
    "MODULAR_CACHE_DIR": "modular",
}
#: Number of different inputs that the calls use in rotation.
INPUT_SETS = 4


def check_and_time(
    request: Any, workflow: Any, eager_errors: dict[int, list[float]], measured: dict[int, Any]
) -> None:
    """Build each batch size, compare it with eager PyTorch, time both, and print the result."""
    arguments = make_parser(request.batch_sizes).parse_args()
    stream = reserve_stdout()
    versions = workflow.versions()
    with cache_folder(arguments.cache, versions) as folder:
        request.scratch_directory = str(folder)
        request.shared_directory = str(folder) if arguments.cache else ""
        workflow.settings(request)
        subject = workflow.open_subject(request)
        for size in arguments.batch_size or request.batch_sizes:
            if hasattr(subject, "settle_inputs"):
                subject.settle_inputs(size, INPUT_SETS)
            inputs = [subject.inputs(size, number) for number in range(INPUT_SETS)]
            start = time.perf_counter()
            program = workflow.build(subject, inputs[0], request)
            device_inputs = [program.feed(each) for each in inputs]
            program(device_inputs[0])
            workflow.synchronise()
            build_seconds = time.perf_counter() - start
            move_weights_back(subject, inputs[0])
            error = compare_with_eager(
                program,
                device_inputs,
                subject,
                inputs,
                workflow.synchronise,
                eager_errors.get(size, []),
                rules_for(request.accuracy, subject.dtype),
            )
            programs = timed_programs(program, device_inputs, subject, inputs, request.device)
            speed, *eager = time_alternately(
                programs, workflow.synchronise, arguments.seconds, request
            )
            result = {
                "batch_size": size,
                "unit": f"{subject.unit}/s",
                "throughput": size * subject.units_per_sample / speed.streamed_seconds,
                "seconds": speed.seconds,
                "build_seconds": build_seconds,
                "versions": versions,
                "error_against_eager": error,
                "speedup": eager[0].seconds / speed.seconds if eager else None,
            }
            print_result(result, measured.get(size), stream, as_json=arguments.json)


def make_parser(batch_sizes: Sequence[int]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Build, check against eager, warm up, and print the throughput."
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        action="append",
        choices=batch_sizes,
        help="one of the measured batch sizes; default: all",
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of timing for each")
    parser.add_argument(
        "--cache",
        type=pathlib.Path,
        help="keep artefacts and compiler caches in this directory for the next start",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


@contextlib.contextmanager
def cache_folder(kept: pathlib.Path | None, versions: dict[str, str]) -> Iterator[pathlib.Path]:
    """Yield the folder for artefacts and caches, and point the compilers to it.

    Below `kept` it is specific to this script and these versions; without `kept` it is temporary.
    """
    with tempfile.TemporaryDirectory() as temporary:
        key = json.dumps([sys.version, versions]).encode() + pathlib.Path(__file__).read_bytes()
        folder = kept / hashlib.sha256(key).hexdigest()[:16] if kept else pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        os.environ.update({name: str(folder / "cache" / each) for name, each in CACHES.items()})
        yield folder


def compare_with_eager(
    program: Any,
    device_inputs: Sequence[Any],
    subject: Any,
    inputs: Sequence[list[Any]],
    synchronise: Callable[[], None],
    eager_errors: Sequence[float],
    rules: Rules,
) -> float:
    """Return the largest error against eager PyTorch, as a share of the allowed one.

    Raise `ArithmeticError` if it is above 1. The measurement compared the outputs with a more
    precise reference; here eager's own error against that reference, `eager_errors` by output, is
    allowed in addition. Of outputs that were close it is what the user's tolerance accounts for.
    """
    worst = 0.0
    for arguments, value in zip(inputs, device_inputs, strict=True):
        output = program(value)
        synchronise()
        outputs, expected = program.collect(output), run_eagerly(subject, arguments)
        for index, (values, target) in enumerate(zip(outputs, expected, strict=True)):
            eager = eager_errors[index] if index < len(eager_errors) else 0.0
            worst = max(worst, _share_of_allowed(values, target, eager, rules))
    if not worst <= 1:
        message = (
            f"the outputs differ from eager by {worst:.1f} times the allowed error:"
            " do not use this recipe"
        )
        raise ArithmeticError(message)
    return worst


def _share_of_allowed(values: Any, target: Any, eager: float, rules: Rules) -> float:
    """Return the error of one output as a share of the allowed one; of integers how many differ."""
    values, target, is_float = sample(values), sample(target), target.dtype.kind == "f"
    if is_float:
        allowed = allowed_error(root_mean_square(unmasked(target)), eager, rules) + eager
        error = root_mean_square(subtract(values, target))
    else:
        allowed = max(eager, rules.integer_share)
        error = float((values != target).mean()) if target.size else 0.0
    return error / allowed if allowed else float(error > 0)


def move_weights_back(subject: Any, arguments: list[Any]) -> None:
    """Move the module's weights to the device of its inputs, on which eager PyTorch runs.

    An export leaves them on the host.
    """
    if hasattr(subject, "module"):
        subject.module.to(subject.tensors(arguments)[0].device)


def run_eagerly(subject: Any, arguments: list[Any]) -> list[Any]:
    """Return the outputs of the model itself; of a file, those of its unoptimised runtime."""
    if hasattr(subject, "module"):
        return list(subject.run(arguments))
    _, outputs = subject.reference([arguments])
    return list(next(iter(outputs)))


def timed_programs(
    program: Any,
    device_inputs: Sequence[Any],
    subject: Any,
    inputs: Sequence[list[Any]],
    device: str,
) -> list[TimedProgram]:
    """Return the program and, for a PyTorch module on the same device, the module itself.

    Some stacks export on the processor what they run on a GPU; eager PyTorch on the processor would
    not be a fair comparison.
    """
    compiled = TimedProgram(program, device_inputs)
    if not hasattr(subject, "module"):
        return [compiled]
    tensors = [subject.tensors(arguments) for arguments in inputs]
    if tensors[0][0].device.type != device:
        return [compiled]
    return [compiled, TimedProgram(lambda each: subject.module(*each), tensors)]


def reserve_stdout() -> TextIO:
    """Return a stream to standard output, and redirect what stacks print there to stderr."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def print_result(result: dict[str, Any], measured: Any, stream: TextIO, *, as_json: bool) -> None:
    """Print the result of one batch size; `measured` is None or the bounds of its throughput."""
    stream.write((json.dumps(result) if as_json else format_result(result, measured)) + "\n")
    stream.flush()


def format_result(result: dict[str, Any], measured: Any) -> str:
    milliseconds = result["seconds"] * 1e3
    line = f"batch size {result['batch_size']}: {result['throughput']:,.4g} {result['unit']}"
    line += f", {milliseconds:.4g} ms a call"
    line += f", {result['speedup']:.2f} times eager" if result["speedup"] else ""
    error = result["error_against_eager"]
    agreement = (
        "agreement with eager unknown"
        if error is None
        else f"agrees with eager ({error * 100:.0f} % of the allowed error)"
    )
    line += f"; built in {result['build_seconds']:.1f} s; {agreement}"
    if measured is None:
        return line
    low, value, high = measured
    bounds = f"{low:,.4g} to {high:,.4g}" if low and high else "no interval"
    return f"{line}\n  p3-advisor measured {value:,.4g} {result['unit']} (95 %: {bounds})"
