"""What a recipe does around the workflow that was measured: open, build, compare with eager, warm up, time.

The source of `serve` and of what it calls becomes part of every recipe; see
`probes.recipes.compose`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import hashlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from probes.checking.correctness import allowed_error, root_mean_square, sample
from probes.measuring.timing import Timed, size_block, time_block
from probes.runtime.memory import keep_freed_blocks

#: Caches of compilers and drivers, by the variables that move them.
CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "VLLM_CACHE_ROOT": "vllm",
    "MODULAR_CACHE_DIR": "modular",
}
#: Distinct inputs that take turns.
INPUT_SETS = 4
#: How often the workflow and eager take turns at least: of calls that take seconds, each turn has
#: two.
TURNS = 5
#: A process rests when for so long it has used less than this share of a processor: some threads
#: spin after a call in the hope of another.
REST_SECONDS = 0.005
REST_SHARE = 0.2
MOST_RESTS = 100


def serve(
    request: Any, workflow: Any, eager_errors: dict[int, list[float]], measured: dict[int, Any]
) -> None:
    """Build each batch size, compare it with eager, time both, and print what came of it beside what was measured."""
    wishes = make_parser(request.batch_sizes).parse_args()
    stream = take_stdout()
    versions = workflow.versions()
    with cache_folder(wishes.cache, versions) as place:
        request.scratch_directory = str(place)
        request.shared_directory = str(place) if wishes.cache else ""
        workflow.settings(request)
        subject = workflow.open_subject(request)
        for size in wishes.batch_size or request.batch_sizes:
            inputs = [subject.inputs(size, number) for number in range(INPUT_SETS)]
            begin = time.perf_counter()
            program = workflow.build(subject, inputs[0], request)
            fed = [program.feed(arguments) for arguments in inputs]
            program(fed[0])
            workflow.synchronise()
            built = time.perf_counter() - begin
            bring_back(subject, inputs[0])
            error = compare(
                program, fed, subject, inputs, workflow.synchronise, eager_errors.get(size, [])
            )
            calls = callers(program, fed, subject, inputs, request.device)
            ours, *eager = time_in_turn(calls, workflow.synchronise, wishes.seconds, request)
            found = {
                "batch_size": size,
                "unit": f"{subject.unit}/s",
                "throughput": size * subject.units_per_sample / ours.each_seconds,
                "seconds": ours.seconds,
                "build_seconds": built,
                "versions": versions,
                "error_against_eager": error,
                "speedup": eager[0].seconds / ours.seconds if eager else None,
            }
            tell(found, measured.get(size), stream, as_json=wishes.json)


def make_parser(batch_sizes: Sequence[int]) -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(
        description="Build, check against eager, warm up, and print the throughput."
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        action="append",
        choices=batch_sizes,
        help="one of those that were measured; default: all",
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each is timed")
    parser.add_argument(
        "--cache",
        type=pathlib.Path,
        help="keep artefacts and compiler caches here, and start from them",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


@contextlib.contextmanager
def cache_folder(kept: pathlib.Path | None, versions: dict[str, str]) -> Iterator[pathlib.Path]:
    """Yield a folder for artefacts and caches: for this very script and these versions below `kept`, else one that is removed."""
    with tempfile.TemporaryDirectory() as passing:
        known_by = (
            json.dumps([sys.version, versions]).encode() + pathlib.Path(__file__).read_bytes()
        )
        place = kept / hashlib.sha256(known_by).hexdigest()[:16] if kept else pathlib.Path(passing)
        place.mkdir(parents=True, exist_ok=True)
        os.environ.update(
            {name: str(place.resolve() / "cache" / folder) for name, folder in CACHES.items()}
        )
        yield place.resolve()


def compare(
    program: Any,
    fed: Sequence[Any],
    subject: Any,
    inputs: Sequence[list[Any]],
    synchronise: Callable[[], None],
    eager_errors: Sequence[float],
) -> float:
    """Return the largest error against eager, as a share of what is allowed; raise where it is above 1.

    Allowed is what was allowed in the measurement, where the outputs were compared with a more
    precise reference, plus eager's own error against that.
    """
    worst = 0.0
    for arguments, value in zip(inputs, fed, strict=True):
        output = program(value)
        synchronise()
        outputs, expected = program.collect(output), run_eagerly(subject, arguments)
        for place, (got, target) in enumerate(
            zip(map(sample, outputs), map(sample, expected), strict=True)
        ):
            eager = eager_errors[place] if place < len(eager_errors) else 0.0
            allowed = allowed_error(target, eager, subject.dtype) + eager
            error = root_mean_square(got - target)
            worst = max(worst, error / allowed if allowed else float(error > 0))
    if not worst <= 1:
        message = f"the outputs differ from eager by {worst:.1f} times what is allowed: do not serve with this"
        raise ArithmeticError(message)
    return worst


def bring_back(subject: Any, arguments: list[Any]) -> None:
    """Move the module's weights to where its inputs go: an export leaves them on the host, and eager is still to run."""
    if hasattr(subject, "module"):
        subject.module.to(subject.tensors(arguments)[0].device)


def run_eagerly(subject: Any, arguments: list[Any]) -> list[Any]:
    """Return what the model itself returns; for a file, what its runtime returns without optimisation."""
    if hasattr(subject, "module"):
        return list(subject.run(arguments))
    _, outputs = subject.reference([arguments])
    return list(next(iter(outputs)))


def callers(
    program: Any, fed: Sequence[Any], subject: Any, inputs: Sequence[list[Any]], device: str
) -> list[Caller]:
    """Return what is timed, each with its inputs: the program and, where the model is a PyTorch module on the same device, that module.

    Some stacks export on the processor what they run on a GPU: eager PyTorch there would be no
    match.
    """
    ours = Caller(program, fed)
    if not hasattr(subject, "module"):
        return [ours]
    tensors = [subject.tensors(arguments) for arguments in inputs]
    if tensors[0][0].device.type != device:
        return [ours]
    return [ours, Caller(lambda each: subject.module(*each), tensors)]


@dataclasses.dataclass(frozen=True)
class Caller:
    """Something to call, and its inputs, which take turns."""

    call: Callable[[Any], object]
    fed: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Speed:
    """Seconds of a call that is waited for, and of one among many, which decides the throughput: a device may work off what it is given."""

    seconds: float
    each_seconds: float


def time_in_turn(
    callers: Sequence[Caller], synchronise: Callable[[], None], seconds: float, request: Any
) -> list[Speed]:
    """Return the speed of each, timed as in the measurement: by turns, in short blocks of calls, each after a rest.

    The medians of all blocks count. Calls that fill a few blocks come before and do not count; they
    say how many fill one.
    """
    keep_freed_blocks()
    streams = request.device == "cuda"
    blocks = [
        size_block(warm(each, synchronise, seconds / TURNS), request.block_seconds)
        for each in callers
    ]
    visits: list[list[Timed]] = [[] for _ in callers]
    end = time.perf_counter() + seconds * len(callers)
    with frozen_objects():
        while len(visits[0]) < TURNS or time.perf_counter() < end:
            for each, block, found in zip(callers, blocks, visits, strict=True):
                rest()
                found.append(
                    time_block(
                        each.call,
                        each.fed,
                        synchronise,
                        block,
                        offset=len(found) * block.calls,
                        streams=streams,
                    )
                )
    return [speed_of(found) for found in visits]


@contextlib.contextmanager
def frozen_objects() -> Iterator[None]:
    """Leave the objects that there are out of garbage collection inside the `with`, and give them back after it.

    `time_block` collects before it times. To walk all objects of a stack leaves the caches cold:
    OpenXLA's calls took 5.6 ms, not 4.7.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def warm(caller: Caller, synchronise: Callable[[], None], seconds: float) -> float:
    """Call for so long, and return the median seconds of a call."""
    taken: list[float] = []
    inputs, end = itertools.cycle(caller.fed), time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        caller.call(next(inputs))
        synchronise()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def rest() -> None:
    """Return when no thread of this process wants a processor any more, or after half a second."""
    for _ in range(MOST_RESTS):
        used = time.process_time()
        time.sleep(REST_SECONDS)
        if time.process_time() - used < REST_SHARE * REST_SECONDS:
            return


def speed_of(visits: Sequence[Timed]) -> Speed:
    """Return the median over the visits."""
    seconds = statistics.median(statistics.median(visit.seconds) for visit in visits)
    streamed = [visit.streamed_seconds for visit in visits if visit.streamed_seconds is not None]
    return Speed(seconds, statistics.median(streamed) if streamed else seconds)


def take_stdout() -> TextIO:
    """Return a stream to the standard output, which is from now on closed to everybody else: stacks print there, and are sent to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours


def tell(found: dict[str, Any], measured: Any, stream: TextIO, *, as_json: bool) -> None:
    """Print what was found at one batch size."""
    stream.write((json.dumps(found) if as_json else describe(found, measured)) + "\n")
    stream.flush()


def describe(found: dict[str, Any], measured: Any) -> str:
    """Return the line for one batch size."""
    line = f"batch size {found['batch_size']}: {found['throughput']:,.4g} {found['unit']}, {found['seconds'] * 1e3:.4g} ms a call"
    line += f", {found['speedup']:.2f} times eager" if found["speedup"] else ""
    error = found["error_against_eager"]
    agrees = (
        "not known to agree with eager"
        if error is None
        else f"agrees with eager ({error:.0%} of the allowed error)"
    )
    line += f"; built in {found['build_seconds']:.1f} s; {agrees}"
    if measured is None:
        return line
    low, value, high = measured
    bounds = f"{low:,.4g} to {high:,.4g}" if low and high else "not bounded"
    return f"{line}\n  p3-advisor measured {value:,.4g} {found['unit']} (95 %: {bounds})"
