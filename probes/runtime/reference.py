"""What only the reference worker does: references, known allocations, peak rates of the device."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from probes import protocol
from probes.adapter import ModelError, Program, Subject
from probes.checking import arrays, dispatch
from probes.checking.dispatch import Cell
from probes.checking.rules import rules_for
from probes.checking.stored_reference import Reference
from probes.measuring import flexibility
from probes.runtime import process
from probes.runtime.channel import Channel
from probes.runtime.failures import try_optional
from probes.wire import events
from probes.wire.shape import Shape


def make_inputs(subject: Any, shape: Shape, request: protocol.Request) -> None:
    """Write the inputs of one shape, with which other workers can build."""
    subject = subject.at(request.at(shape)) if shape.lengths else subject
    count = request.input_sets
    if hasattr(subject, "settle_inputs"):
        count = subject.settle_inputs(shape.batch_size, count)
    inputs = [subject.inputs(shape.batch_size, number) for number in range(count)]
    arrays.save(dispatch.inputs_file(request, shape), inputs)


def make_reference(
    workflow: Any, subject: Any, shape: Shape, request: protocol.Request, channel: Channel
) -> None:
    """Write the reference outputs of one shape, and report the work of a call."""
    channel.start_phase("correctness", shape)
    inputs = dispatch.load_inputs(request, shape)
    request = request.at(shape)
    subject = subject.at(request) if shape.lengths else subject
    program: Program = workflow.build(subject, inputs[0], request)
    file = dispatch.reference_file(request, shape)
    dispatch.make_reference(workflow, subject, program, inputs, file, request)
    channel.send(dispatch.measure_workload(subject, inputs[0], shape, request))


def record_coupled_rows(workflow: Any, subject: Subject, request: protocol.Request) -> None:
    """Record whether rows depend on each other; nothing for generated text."""
    shape = max(request.shapes)
    found = dispatch.load_reference(request, shape)
    if not isinstance(found, Reference) or not flexibility.is_batched(
        found.inputs[0], shape.batch_size
    ):
        return
    program: Program = workflow.build(subject, found.inputs[0], request)
    rules = rules_for(request.accuracy, subject.dtype)
    cell = Cell(workflow, shape, program, [], found, rules)
    flexibility.record_coupled_rows(cell, found, request)


def make_length_reference(
    workflow: Any, subject: Any, request: protocol.Request, channel: Channel
) -> None:
    """Write inputs and outputs of a length that is not built; nothing for a model without one."""
    changed = flexibility.at_new_length(request)
    (shape,) = changed.shapes
    channel.start_phase("correctness", shape)
    try:
        changed_subject = subject.at(changed)
    except ModelError:
        return
    arguments = changed_subject.inputs(shape.batch_size, 0)
    program: Program = workflow.build(subject, arguments, changed)
    file = dispatch.reference_file(changed, shape)
    file.parent.mkdir(exist_ok=True)
    dispatch.make_reference(workflow, changed_subject, program, [arguments], file, changed)


def answer_tokens(request: protocol.Request, channel: Channel) -> list[str]:
    """Hold memory for each `allocate`, measure the device for `peaks`; return the next token."""
    with contextlib.ExitStack() as held:
        while (token := channel.read_token())[0] in {"allocate", "peaks"}:
            channel.start_phase("measure")
            held.close()
            if token[0] == "peaks":
                try_optional(lambda: measure_peaks(request, channel))
            elif int(token[1]):
                held.enter_context(process.hold(int(token[1]), request.device))
            channel.send(events.Ready())
        return token


def measure_peaks(request: protocol.Request, channel: Channel) -> None:
    """Report how fast the device can be; nothing if PyTorch is not loaded."""
    if "torch" in sys.modules:
        from probes.stacks import pytorch  # noqa: PLC0415 - imports torch, which not every worker has

        channel.send(pytorch.measure_peaks(request.device, request.dtype))
