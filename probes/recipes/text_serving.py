"""What a recipe of generated text does around the workflow that was measured: like `probes.recipes.serving`, for tokens.

Eager PyTorch goes first and alone: its weights and an engine's would not both fit on many a device.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from probes.checking.logprobs import Scores
from probes.checking.text_correctness import find_divergence
from probes.recipes.serving import (
    Caller,
    cache_folder,
    make_parser,
    take_stdout,
    tell,
    time_in_turn,
)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What eager PyTorch generates at one batch size: prompts, tokens, the likeliest tokens along them, its time."""

    inputs: list[Any]
    tokens: list[Any]
    scores: Scores
    vocabulary: int
    seconds: float

    def likeliest(self, number: int) -> Scores:  # noqa: ARG002 - there is one set of prompts
        """Return the likeliest tokens along the text with their logarithms."""
        return self.scores


def serve_texts(
    request: Any, workflow: Any, allowed_gaps: dict[int, float], measured: dict[int, Any]
) -> None:
    """Generate with eager PyTorch, then build each batch size, compare its text, time it, and print what came of it."""
    parser = make_parser(request.batch_sizes)
    parser.add_argument(
        "checkpoint",
        nargs="?",
        help="a model directory or a name on the hub, in place of what was measured",
    )
    wishes = parser.parse_args()
    stream = take_stdout()
    if wishes.checkpoint:
        request.subject = {
            "kind": "transformers",
            "name": wishes.checkpoint,
            "weights": wishes.checkpoint,
        }
        allowed_gaps, measured = {}, {}
    versions = workflow.versions()
    with cache_folder(wishes.cache, {**versions, "checkpoint": wishes.checkpoint or ""}) as place:
        request.scratch_directory = request.shared_directory = str(place)
        workflow.settings(request)
        sizes = wishes.batch_size or request.batch_sizes
        expected = generate_eagerly(request, sizes, wishes.seconds)
        subject = workflow.open_subject(request)
        for size in sizes:
            begin = time.perf_counter()
            program = workflow.build(subject, expected[size].inputs, request)
            fed = program.feed(expected[size].inputs)
            tokens = program.collect(program(fed))
            built = time.perf_counter() - begin
            error = compare_texts(tokens, expected[size], allowed_gaps.get(size))
            (ours,) = time_in_turn(
                [Caller(program, [fed])], workflow.synchronise, wishes.seconds, request
            )
            found = {
                "batch_size": size,
                "unit": "tokens/s",
                "throughput": size * request.output_tokens / ours.each_seconds,
                "seconds": ours.seconds,
                "build_seconds": built,
                "versions": versions,
                "error_against_eager": error,
                "speedup": expected[size].seconds / ours.seconds,
            }
            tell(found, measured.get(size), stream, as_json=wishes.json)


def generate_eagerly(request: Any, sizes: Sequence[int], seconds: float) -> dict[int, Expected]:
    """Write the checkpoint if there is none, and return what eager PyTorch generates from it by batch size; nothing of it stays loaded."""
    import torch  # noqa: PLC0415 - an engine's module need not import it

    from probes.subjects.causal_lm import open_causal_lm  # noqa: PLC0415 - as above

    wait = torch.cuda.synchronize if request.device == "cuda" else do_nothing
    with torch.inference_mode():
        subject = open_causal_lm(request)
        expected = {size: expect(subject, size, request, wait, seconds) for size in sizes}
    del subject
    gc.collect()
    if request.device == "cuda":
        torch.cuda.empty_cache()
    return expected


def do_nothing() -> None:
    """Return at once: on a processor all is done when a call returns."""


def expect(
    subject: Any, size: int, request: Any, wait: Callable[[], None], seconds: float
) -> Expected:
    """Return what eager PyTorch generates at one batch size."""
    from probes.subjects.transformers_generate import TextGeneration  # noqa: PLC0415 - as above

    program = TextGeneration(subject.model, request)
    inputs = subject.inputs(size, 0)
    fed = program.feed(inputs)
    tokens = program.collect(program(fed))
    _, likeliest = program.score_all(fed, tokens[0], 1)
    (eager,) = time_in_turn([Caller(program, [fed])], wait, seconds, request)
    return Expected(inputs, tokens, likeliest, subject.info.vocabulary, eager.seconds)


def compare_texts(tokens: Sequence[Any], expected: Expected, allowed: float | None) -> float | None:
    """Return how far the text departs from eager's, as a share of what is allowed; raise where it is above 1.

    It is None for other weights than those that were measured, of which nothing is known.
    """
    if [each.shape for each in tokens] != [each.shape for each in expected.tokens]:
        shapes = ", ".join(str(each.shape) for each in tokens)
        message = f"it generated {shapes} tokens instead of {expected.tokens[0].shape}: do not serve with this"
        raise ArithmeticError(message)
    found = find_divergence(tokens, expected)
    if allowed is None:
        return None
    gap = found.gap or 0.0
    if not gap <= allowed:
        excess = f"eager PyTorch prefers other tokens by {gap:.2e}, and the precision accounts for {allowed:.2e}"
        message = f"{excess}; {found.parting}: do not serve with this"
        raise ArithmeticError(message)
    return gap / allowed
