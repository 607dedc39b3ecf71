"""Open the model of a worker; build, check and warm up the program for each shape.

For a trained model, also report what the arm loses: along a long text, and by the user's metric.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

from probes import device_work, events, protocol, timing
from probes.accuracy import Checked, UserMetric
from probes.adapter import Program, Subject, UnsupportedError, Workflow
from probes.checking import long_text, program_cell
from probes.checking.program_cell import ProgramCell
from probes.checking.rules import rules_for
from probes.checking.stored_reference import Reference
from probes.files import load_module
from probes.outcome import Failure, Phase
from probes.runtime.channel import Channel
from probes.runtime.failures import FailureError, attempt, exception_summary, try_optional
from probes.runtime.process import KeptMemory, exclusive_calls
from probes.shape import Shape

#: Share of a call's duration for which the device may work after the workflow's `synchronise`. More
#: than that is visible in the measured times.
MAX_LATE_SHARE = 0.05
#: Calls for the first token in one visit at most.
MAX_FIRST_TOKEN_CALLS = 3
#: Faults of outputs that cannot be compared with each other.
UNREPEATABLE = {"shape", "not-finite"}
DRAW_OUTSIDE = (
    "draw the numbers outside of forward, and give them to it as an input; F.dropout draws none in"
    " eval() with training=self.training"
)


@dataclasses.dataclass
class Job:
    """What a worker does: the request, the workflow and the model that it is about, its channel."""

    request: protocol.Request
    channel: Channel
    #: In the role `serve` it is a `ServedWorkflow`.
    workflow: Workflow
    #: The model, once it is loaded.
    subject: Any = None
    #: Seconds of the import of the compiler ahead of the first build; 0.0 after that build.
    import_seconds: float = 0.0

    def at(self, shape: Shape) -> Job:
        request = self.request.at(shape)
        subject = self.subject.at(request) if shape.tokens else self.subject
        return dataclasses.replace(self, request=request, subject=subject)


def create_model(job: Job) -> None:
    """Do what needs no shared weights; nothing for a stack without PyTorch's models."""
    job.channel.start_phase("open")
    by_request = sys.modules.get("probes.subjects.by_request")
    if by_request is not None:
        by_request.create_ahead(job.request)
    job.channel.send(events.Created())


def import_compiler(job: Job) -> None:
    """Import what the first build imports while it has to wait for the reference and the inputs.

    On a CPU, the import would disturb calls of other workers that are timed.
    """
    if job.request.device != "cpu":
        with job.channel.stopwatch() as seconds:
            job.workflow.import_compiler()
        job.import_seconds = seconds()


def load_subject(job: Job) -> None:
    request, channel = job.request, job.channel
    channel.start_phase("open")
    subject: Subject = job.workflow.open_subject(request)
    refuse_unsupported_dtype(subject, request)
    channel.send(
        events.Opened(
            subject.parameters,
            subject.parameter_bytes,
            subject.unit,
            subject.units_per_sample,
            dict(subject.adjusted),
            subject.convolutions,
        )
    )
    job.subject = subject


def refuse_unsupported_dtype(subject: Subject, request: protocol.Request) -> None:
    """Raise `FailureError`. The advisor knows the precision only of a model that is cast."""
    own, supported = subject.dtype, request.supported_dtypes
    is_described = request.dtype == protocol.OWN and own in protocol.PRECISIONS
    if not is_described or not supported or own in supported:
        return
    reason = (
        f"it does not support {own}, the model's own precision, on {request.device}, "
        f"only {', '.join(supported)}"
    )
    fix = (
        f"export the model in {supported[0]}"
        if request.subject["kind"] in {"exported", "onnx"}  # which are not cast
        else f"measure the model in another precision: --dtype {supported[0]}"
    )
    raise FailureError(Failure("unsupported", "open", reason, fix))


def build_cells(job: Job, *, waits: bool) -> dict[Shape, ProgramCell]:
    """Build all shapes before the checks, which need the reference; raise `FailureError`.

    With `waits`, wait for a command before each shape but the first.
    """
    built = dict[Shape, tuple[Program, list[Any]]]()
    cells = {}
    for shape in job.request.shapes:
        if waits and built:
            job.channel.read_command()
        built[shape] = build_program(job, shape)
    for shape, (program, device_inputs) in built.items():
        job.channel.start_phase("correctness", shape)
        reference = program_cell.load_reference(job.request, shape)
        rules = rules_for(job.request.accuracy, job.subject.dtype)
        cell = ProgramCell(job.workflow, shape, program, device_inputs, reference, rules)
        with exclusive_calls(job.request):
            record = check_cell(cell, job)
        cells[shape] = dataclasses.replace(cell, is_close=record.accuracy_class == "close")
    return cells


def build_program(job: Job, shape: Shape) -> tuple[Program, list[Any]]:
    workflow, subject, request, channel = job.workflow, job.subject, job.request, job.channel
    channel.start_phase("build", shape)
    inputs = program_cell.load_inputs(request, shape)
    kept = KeptMemory()
    with kept.counting(), channel.stopwatch() as build_seconds:
        program: Program = workflow.build(subject, inputs[0], request.at(shape))
    device_inputs = [program.feed(arguments) for arguments in inputs]
    with kept.counting(), channel.stopwatch() as first_call_seconds:
        program(device_inputs[0])
        workflow.synchronise()
    seconds, job.import_seconds = build_seconds() + job.import_seconds, 0.0
    channel.send(events.Built(shape, seconds, first_call_seconds(), kept.bytes))
    return program, device_inputs


def check_cell(cell: ProgramCell, job: Job) -> Checked:
    """Report and return the accuracy; raise `FailureError` for outputs that are wrong or vary."""
    record, reason = cell.check()
    accuracy, difference = record.accuracy, None
    if job.request.checks_repeats and accuracy.fault not in UNREPEATABLE:
        suspects = cell.workflow.nondeterministic_operators(cell.program)
        calls, difference = cell.check_repeats(repeat_limits(suspects, job.request))
        accuracy = dataclasses.replace(accuracy, same_input_calls=calls)
        record = dataclasses.replace(record, accuracy=accuracy)
    is_fixed = reason is None and cell.is_fixed()
    if is_fixed:
        record = dataclasses.replace(record, accuracy_class="incorrect")
        reason = "it returns an output again and again that the model draws anew in each call"
    job.channel.send(record)
    if difference is not None:
        raise FailureError(nondeterministic(cell, "correctness", difference))
    if reason is not None:
        because, fix = ("", DRAW_OUTSIDE) if is_fixed else why_drawn(cell)
        reason = f"{cell.shape.description}: {reason}{because}"
        raise FailureError(Failure("incorrect", "correctness", reason, fix))
    return record


def nondeterministic(cell: ProgramCell, phase: Phase, difference: str) -> Failure:
    operators = cell.workflow.nondeterministic_operators(cell.program)
    suspects = f"; operators that may vary: {', '.join(operators)}" if operators else ""
    because, fix = why_drawn(cell)
    reason = f"{cell.shape.description}: {difference}{suspects}{because}"
    return Failure("nondeterministic", phase, reason, fix)


def why_drawn(cell: ProgramCell) -> tuple[str, str | None]:
    """Return why outputs of a model that seeds its random numbers differ, and a next step."""
    if not isinstance(cell.reference, Reference) or not cell.reference.findings.draws:
        return "", None
    seeded = "the model draws random numbers with a seed of its own, which the program may not keep"
    return f"; {seeded}", DRAW_OUTSIDE


def repeat_limits(suspects: list[str], request: protocol.Request) -> dict[str, Any]:
    """Return the limits of repeated calls: more with operators that may be nondeterministic."""
    limits: dict[str, Any] = request.accuracy["repeats"]
    if not suspects:
        return limits
    calls, seconds = limits["nondeterministic_calls"], limits["nondeterministic_seconds"]
    return {**limits, "calls": calls, "most_calls": calls, "most_seconds": seconds}


def warm_up_cell(cell: ProgramCell, job: Job) -> timing.VisitSize:
    """Return the size of visits; raise `FailureError` if calls return before their work is done."""
    request = job.request
    job.channel.start_phase("warmup", cell.shape)
    timer, torch = timer_of(cell), timing.torch_on_gpu()
    late_share = (
        device_work.late_share_on_device(timer, torch.cuda.synchronize)
        if torch
        else device_work.late_share_of_output(timer, cell.program.collect)
    )
    if late_share > MAX_LATE_SHARE:
        reason = (
            "its calls return before their work is done, which goes on for"
            f" {late_share * 100:.0f} % of a call"
        )
        raise FailureError(Failure("incorrect", "warmup", reason))
    times_first_token = request.task == protocol.GENERATE and warm_up_first_token(cell)
    warmed_up = timing.warm_up(timer, request.warmup_seconds, cell.shape)
    size = timing.size_visit(warmed_up.typical_seconds, request.visit_seconds)
    if times_first_token:
        size = dataclasses.replace(size, first_token_calls=min(size.calls, MAX_FIRST_TOKEN_CALLS))
    job.channel.send(warmed_up)
    return size


def warm_up_first_token(cell: ProgramCell) -> bool:
    """Call so that no visit compiles for it; return False where prompts run one after the other."""
    try:
        for inputs in cell.device_inputs:
            cell.program.first_token(inputs)
            cell.workflow.synchronise()
    except UnsupportedError:
        return False
    return True


def timer_of(cell: ProgramCell) -> timing.Timer:
    return timing.Timer(cell.program, cell.device_inputs, cell.workflow.synchronise)


def report_losses(cells: dict[Shape, ProgramCell], job: Job) -> None:
    """Send the scores along the long text and the user's metric; what fails is not sent."""
    shape, request, channel = max(cells), job.request, job.channel
    program = cells[shape].program
    if request.long_text and long_text.file_of(request).exists():
        channel.start_phase("correctness", shape)
        scores = try_optional(
            lambda: long_text.score_program(program, long_text.load(request), request)
        )
        if scores is not None:
            channel.send(scores)
    if request.metric:
        channel.start_phase("correctness", shape)
        file, _, name = request.metric.rpartition(":")

        def call_metric() -> UserMetric:
            module = load_module("p3_advisor_metric", pathlib.Path(file))
            return UserMetric(float(getattr(module, name)(MeasuredModel(cells[shape]))))

        channel.send(
            attempt(call_metric, lambda problem: UserMetric(None, exception_summary(problem)))
        )


class MeasuredModel:
    """What the user's metric gets: a call takes and returns numpy arrays.

    The arrays have the shapes that were built. For text they are prompts, `(batch_size, input
    tokens) int64`, and new tokens, `(batch_size, output tokens) int64`.
    """

    def __init__(self, cell: ProgramCell) -> None:
        self.batch_size = cell.shape.batch_size
        self._cell = cell

    def __call__(self, *arrays: Any) -> list[Any]:
        return self._cell.call(list(arrays))
