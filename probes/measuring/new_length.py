"""Try a length, in tokens, that a program was not built for.

The outputs at another length do not follow from those at the built one, so the reference worker
makes a reference for it: one input set at the smallest batch size.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from probes.adapter import Program, Subject
from probes.checking import dispatch
from probes.checking.rules import Rules
from probes.measuring import flexibility
from probes.protocol import Request
from probes.wire.events import NewShapeResult

#: Directory with the reference of the new length.
DIRECTORY = "new-length"
#: Unit of throughput of models whose inputs are tokens.
TOKENS = "tokens"
#: Kinds of models whose inputs have the length of the request without being tokens.
KINDS_WITH_LENGTH = {"synthetic", "onnx"}
LENGTH_AXIS = 1
#: Compilers specialise a length of 1, so it is not a typical new one.
SHORTEST = 2


def new_input_tokens(built: int) -> int:
    """Return the length to try: about half, which no limit of the model or an engine forbids."""
    return built // 2 + 1 if built > SHORTEST else built + 1


def at_new_length(request: Request) -> Request:
    """Return the request for the smallest batch size, one input set and the new length."""
    return dataclasses.replace(
        request,
        batch_sizes=[min(request.batch_sizes)],
        input_tokens=new_input_tokens(request.input_tokens),
        input_sets=1,
        shared_directory=str(pathlib.Path(request.shared_directory) / DIRECTORY),
    )


def has_reference(request: Request) -> bool:
    """Return whether the reference worker has made a reference for the new length."""
    changed = at_new_length(request)
    return dispatch.reference_file(changed, changed.batch_sizes[0]).exists()


def resize(arrays: list[Any], built: int, length: int, subject: Subject, kind: str) -> list[Any]:
    """Return the arrays with `length` elements along each second dimension that has `built`.

    `arrays` are the model's arguments, numpy arrays of any shape and dtype. Return an empty list if
    the model has no length. Elements are repeated if there are too few.
    """
    if subject.unit != TOKENS and kind not in KINDS_WITH_LENGTH:
        return []
    resized = [
        array.take(range(length), axis=LENGTH_AXIS, mode="wrap")
        if _has_length(array, built)
        else array
        for array in arrays
    ]
    return resized if any(_has_length(array, built) for array in arrays) else []


def _has_length(array: Any, built: int) -> bool:
    return bool(array.ndim > LENGTH_AXIS and array.shape[LENGTH_AXIS] == built)


def try_length(workflow: Any, program: Program, rules: Rules, request: Request) -> NewShapeResult:
    """Call `program`, which was built for the smallest batch size, with the new length.

    An exception of the stack is a refusal; it is left to the caller.
    """
    changed = at_new_length(request)
    size = changed.batch_sizes[0]
    reference = dispatch.load_reference(changed, size)
    device_inputs = program.feed(reference.inputs[0])
    first_seconds, steady_seconds, _ = flexibility.time_new_shape(workflow, program, device_inputs)
    _, reason = dispatch.check_outputs(
        workflow, program, [device_inputs], reference, rules, size, with_logprobs=False
    )
    outcome = flexibility.outcome_of(first_seconds, steady_seconds, reason)
    return NewShapeResult(
        size,
        outcome,
        first_call_seconds=first_seconds,
        steady_seconds=steady_seconds,
        reason=reason,
        input_tokens=changed.input_tokens,
    )
