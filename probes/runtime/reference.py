"""What only the reference worker does: references, known allocations, peak rates of the device."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

from probes import arrays, device_work, events, protocol
from probes.checking import array_reference, program_cell, text_reference
from probes.checking.program_cell import ProgramCell
from probes.checking.rules import rules_for
from probes.checking.stored_reference import Reference
from probes.commands import Allocate, Build, Command, ComputeOutputs, MeasurePeaks
from probes.files import replace_when_complete
from probes.runtime import flexibility, process
from probes.runtime.cells import Job, load_subject
from probes.runtime.failures import try_optional
from probes.shape import Shape


def run_role(job: Job) -> None:
    """Write the inputs, then the reference outputs and what else others compare with."""
    if not isinstance(answer_commands(job), Build):
        return
    job = leave_processors(job)
    load_subject(job)
    request, channel = job.request, job.channel
    channel.start_phase("correctness")
    for shape in request.shapes:
        subject = job.at(shape).subject
        count = subject.settle_inputs(shape.batch_size, request.input_sets)
        inputs = [subject.inputs(shape.batch_size, number) for number in range(count)]
        arrays.save(program_cell.inputs_file(request, shape), inputs)
    channel.send(events.Ready())
    if not isinstance(channel.read_command(), ComputeOutputs):
        return
    with process.exclusive_calls(request):
        for shape in request.shapes:
            channel.start_phase("correctness", shape)
            inputs, of_shape = program_cell.load_inputs(request, shape), job.at(shape)
            write_reference(of_shape, shape, inputs)
            channel.send(of_shape.subject.workload(shape, inputs[0]))
    # Other workers check their outputs first: a race waits for them.
    channel.start_phase("correctness")
    with process.exclusive_calls(request):
        if request.long_text:
            write_long_text(job)
        # A model that takes no other batch size refuses it in each worker.
        try_optional(lambda: record_coupled_rows(job))
        if request.new_shapes:
            # A model that does not run at another length has no reference for one.
            try_optional(lambda: make_length_reference(job))


def write_reference(job: Job, shape: Shape, inputs: list[list[Any]]) -> None:
    """Take `inputs` by input set, as numpy arrays; the workflow is eager PyTorch."""
    subject, request = job.subject, job.request
    program = job.workflow.build(subject, inputs[0], request)
    file = program_cell.reference_file(request, shape)
    device_inputs = [program.feed(arguments) for arguments in inputs]
    if request.task == protocol.GENERATE:
        name, runs = subject.reference_runs(program, device_inputs)
        text_reference.save_reference(file, name, inputs, runs)
        return
    findings = subject.examine_calls(inputs)
    name, exact = subject.reference(inputs, quick=protocol.QUICK_REFERENCE in request.options)
    reference = array_reference.create_reference(
        name,
        exact,
        findings.outputs or program_cell.run_program(job.workflow, program, device_inputs),
        inputs,
        subject.class_counts,
        findings,
        subject.find_ties,
    )
    reference = array_reference.measure_rounding(reference, subject, request.accuracy["envelope"])
    arrays.save(file, reference)


def write_long_text(job: Job) -> None:
    """Write the long text of a trained model; only the user's file of texts may fail."""
    from probes.subjects import text_source  # noqa: PLC0415 - imports transformers

    if job.request.long_text["data"]:
        text_source.write_long_text(job.subject, job.request)
    else:
        try_optional(lambda: text_source.write_long_text(job.subject, job.request))


def record_coupled_rows(job: Job) -> None:
    """Record whether rows depend on each other, or outputs have no rows; nothing for text."""
    request, shape = job.request, max(job.request.shapes)
    reference = program_cell.load_reference(request, shape)
    inputs = reference.inputs[0]
    if not isinstance(reference, Reference) or not flexibility.is_batched(inputs, shape.batch_size):
        return
    program = job.workflow.build(job.subject, inputs, request)
    rules = rules_for(request.accuracy, job.subject.dtype)
    cell = ProgramCell(job.workflow, shape, program, [], reference, rules)
    is_coupled = flexibility.has_coupled_rows(cell, reference, request.batch_sizes)
    with replace_when_complete(flexibility.coupled_rows_file(request)) as partial:
        partial.write_text(json.dumps(is_coupled))


def make_length_reference(job: Job) -> None:
    """Write inputs and outputs of a length that is not built; nothing for a model without one."""
    built = job.subject.length(job.request.at(job.request.shapes[0]))
    if built is None:
        return
    changed = flexibility.at_new_length(job.request, built)
    (shape,) = changed.shapes
    job.channel.start_phase("correctness", shape)
    subject = job.subject.at(changed)
    program_cell.reference_file(changed, shape).parent.mkdir(exist_ok=True)
    changed_job = dataclasses.replace(job, request=changed, subject=subject)
    write_reference(changed_job, shape, [subject.inputs(shape.batch_size, 0)])
    with replace_when_complete(flexibility.length_file(job.request)) as partial:
        partial.write_text(json.dumps(built))


def leave_processors(job: Job) -> Job:
    """Halve the threads on a CPU: others build, and waiting threads slow a call up to tenfold."""
    request = job.request
    if request.device != "cpu":
        return job
    request = dataclasses.replace(request, threads=max(1, request.threads // 2))
    job.workflow.settings(request)
    return dataclasses.replace(job, request=request)


def answer_commands(job: Job) -> Command:
    """Hold memory for each `Allocate`, and measure the peaks; return the next command."""
    channel = job.channel
    with contextlib.ExitStack() as held:
        while isinstance(command := channel.read_command(), (Allocate, MeasurePeaks)):
            channel.start_phase("measure")
            held.close()
            if isinstance(command, MeasurePeaks):
                try_optional(lambda: measure_peaks(job))
            elif command.bytes:
                held.enter_context(process.hold_memory(command.bytes))
            channel.send(events.Ready())
        return command


def measure_peaks(job: Job) -> None:
    if peaks := device_work.measure_peaks(job.request.device, job.request.dtype):
        job.channel.send(peaks)
