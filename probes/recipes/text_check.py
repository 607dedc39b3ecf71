"""The check script of a recipe that generates text; see `probes.recipes.forward_check`.

Eager PyTorch runs first and alone, because many devices have no memory for its weights and those of
an engine at the same time.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from probes.checking.logprobs import TokenLogprobs
from probes.checking.text_divergence import find_divergence
from probes.recipes.alternating_timing import TimedProgram, time_alternately
from probes.recipes.forward_check import (
    cache_folder,
    make_parser,
    print_result,
    reserve_stdout,
)


@dataclasses.dataclass(frozen=True)
class EagerText:
    """What eager PyTorch generates at one batch size."""

    #: One array of prompts, `(rows, input tokens) int64`.
    inputs: list[Any]
    #: One array, `(rows, output tokens) int64`, and the most likely tokens along it.
    tokens: list[Any]
    logprobs: TokenLogprobs
    vocabulary: int
    #: Seconds of a call.
    seconds: float

    def top_tokens(self, number: int) -> TokenLogprobs:  # noqa: ARG002 - there is one input set
        return self.logprobs


def check_and_time_texts(
    request: Any, workflow: Any, allowed_gaps: dict[int, float], measured: dict[int, Any]
) -> None:
    """Generate with eager PyTorch; then build, compare and time each batch size."""
    parser = make_parser(request.batch_sizes)
    parser.add_argument(
        "checkpoint",
        nargs="?",
        help="a model directory or a name on the hub, instead of the measured model",
    )
    arguments = parser.parse_args()
    stream = reserve_stdout()
    if arguments.checkpoint:
        request.subject = {
            "kind": "transformers",
            "name": arguments.checkpoint,
            "weights": arguments.checkpoint,
        }
        allowed_gaps, measured = {}, {}
    versions = workflow.versions()
    cache_key = {**versions, "checkpoint": arguments.checkpoint or ""}
    with cache_folder(arguments.cache, cache_key) as folder:
        request.scratch_directory = request.shared_directory = str(folder)
        workflow.settings(request)
        sizes = arguments.batch_size or request.batch_sizes
        eager = generate_eagerly(request, sizes, arguments.seconds)
        subject = workflow.open_subject(request)
        for size in sizes:
            start = time.perf_counter()
            program = workflow.build(subject, eager[size].inputs, request)
            device_inputs = program.feed(eager[size].inputs)
            tokens = program.collect(program(device_inputs))
            build_seconds = time.perf_counter() - start
            error = compare_texts(tokens, eager[size], allowed_gaps.get(size))
            (speed,) = time_alternately(
                [TimedProgram(program, [device_inputs])],
                workflow.synchronise,
                arguments.seconds,
                request,
            )
            result = {
                "batch_size": size,
                "unit": "tokens/s",
                "throughput": size * request.output_tokens / speed.streamed_seconds,
                "seconds": speed.seconds,
                "build_seconds": build_seconds,
                "versions": versions,
                "error_against_eager": error,
                "speedup": eager[size].seconds / speed.seconds,
            }
            print_result(result, measured.get(size), stream, as_json=arguments.json)


def generate_eagerly(request: Any, sizes: Sequence[int], seconds: float) -> dict[int, EagerText]:
    """Create the checkpoint if necessary, and return eager PyTorch's text by batch size.

    Nothing of the model stays in memory.
    """
    import torch  # noqa: PLC0415 - an engine's module need not import it

    from probes.subjects.causal_lm import open_causal_lm  # noqa: PLC0415 - as above

    wait = torch.cuda.synchronize if request.device == "cuda" else do_nothing
    with torch.inference_mode():
        subject = open_causal_lm(request)
        texts = {size: generate_one(subject, size, request, wait, seconds) for size in sizes}
    del subject
    gc.collect()
    if request.device == "cuda":
        torch.cuda.empty_cache()
    return texts


def do_nothing() -> None:
    """Synchronise a processor, on which a call returns when its work is done."""


def generate_one(
    subject: Any, size: int, request: Any, synchronise: Callable[[], None], seconds: float
) -> EagerText:
    """Return eager PyTorch's text at one batch size."""
    from probes.subjects.transformers_generate import TextGeneration  # noqa: PLC0415 - as above

    program = TextGeneration(subject.model, request)
    inputs = subject.inputs(size, 0)
    device_inputs = program.feed(inputs)
    tokens = program.collect(program(device_inputs))
    _, top_tokens = program.score_all(device_inputs, tokens[0], 1)
    (eager,) = time_alternately(
        [TimedProgram(program, [device_inputs])], synchronise, seconds, request
    )
    return EagerText(inputs, tokens, top_tokens, subject.info.vocabulary, eager.seconds)


def compare_texts(tokens: Sequence[Any], eager: EagerText, allowed: float | None) -> float | None:
    """Return the gap at which the text diverges from eager's, as a share of the allowed one.

    Raise `ArithmeticError` if it is above 1. The result is None without an `allowed` gap, which is
    known only for the measured weights. `tokens` is one array, `(rows, output tokens)` of integers.
    """
    if [each.shape for each in tokens] != [each.shape for each in eager.tokens]:
        shapes = ", ".join(str(each.shape) for each in tokens)
        message = (
            f"the recipe generated {shapes} tokens instead of {eager.tokens[0].shape}:"
            " do not use this recipe"
        )
        raise ArithmeticError(message)
    found = find_divergence(tokens, eager)
    if allowed is None:
        return None
    gap = found.gap or 0.0
    if not gap <= allowed:
        message = (
            f"eager PyTorch prefers other tokens by {gap:.2e}, but the precision explains only"
            f" {allowed:.2e}; {found.excerpt}: do not use this recipe"
        )
        raise ArithmeticError(message)
    return gap / allowed
