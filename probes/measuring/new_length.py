"""Try a length, in tokens, that a program was not built for.

The outputs at another length do not follow from those at the built one, so the reference worker
makes a reference for it: one input set at the smallest batch size.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from probes.adapter import Program
from probes.checking import dispatch
from probes.checking.rules import Rules
from probes.measuring import flexibility
from probes.protocol import Request
from probes.wire.events import NewShapeResult
from probes.wire.shape import Shape

#: Directory with the reference of the new length.
DIRECTORY = "new-length"
#: Compilers specialise a length of 1, so it is not a typical new one.
SHORTEST = 2


def new_input_tokens(built: int) -> int:
    """Return the length to try: about half, which no limit of the model or an engine forbids."""
    return built // 2 + 1 if built > SHORTEST else built + 1


def at_new_length(request: Request) -> Request:
    """Return the request for the smallest shape, with one input set and the new length."""
    shortest = request.at(request.shapes[0])
    return dataclasses.replace(
        shortest,
        batch_sizes=[min(request.batch_sizes)],
        input_tokens=new_input_tokens(shortest.input_tokens),
        lengths=[],
        input_sets=1,
        shared_directory=str(pathlib.Path(request.shared_directory) / DIRECTORY),
    )


def tried_shape(request: Request) -> Shape:
    """Return the shape with the new length."""
    changed = at_new_length(request)
    return Shape(changed.batch_sizes[0], changed.input_tokens)


def has_reference(request: Request) -> bool:
    """Return whether the reference worker has made a reference for the new length."""
    changed = at_new_length(request)
    return dispatch.reference_file(changed, changed.shapes[0]).exists()


def try_length(workflow: Any, program: Program, rules: Rules, request: Request) -> NewShapeResult:
    """Call `program`, which was built for the smallest batch size, with the new length.

    An exception of the stack is a refusal; it is left to the caller.
    """
    changed = at_new_length(request)
    (shape,) = changed.shapes
    reference = dispatch.load_reference(changed, shape)
    device_inputs = program.feed(reference.inputs[0])
    first_seconds, steady_seconds, _ = flexibility.time_new_shape(workflow, program, device_inputs)
    _, reason = dispatch.check_outputs(
        workflow, program, [device_inputs], reference, rules, shape, with_logprobs=False
    )
    outcome = flexibility.outcome_of(first_seconds, steady_seconds, reason)
    return NewShapeResult(
        tried_shape(request),
        outcome,
        first_call_seconds=first_seconds,
        steady_seconds=steady_seconds,
        reason=reason,
    )
