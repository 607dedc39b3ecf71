"""The life of a worker, whatever the stack does: import, load, build, check, warm up, visits, answer.

Here is the project's one broad `except`: what a foreign stack raises is data for the advisor, not
an error of ours.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import pathlib
import re
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

from probes import protocol
from probes.adapter import ModelError, Program, Subject, UnsupportedError
from probes.checking import dispatch
from probes.measuring import sync_check, timing
from probes.runtime import caches, environment, memory
from probes.runtime.channel import Channel
from probes.runtime.service import Cell, OutcomeError, Service

#: How messages for terminals are coloured.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Names of exceptions by which stacks say that memory is short, in any module.
OUT_OF_MEMORY_NAMES = {"OutOfMemoryError", "MemoryError"}
#: Share of a call that the device may still work after the workflow has said that it is done: what
#: a clock can see.
MOST_LATE_WORK = 0.05


def run(directory: pathlib.Path, doorbell: int) -> None:
    """Answer the request in `directory` and end the process; never return and never raise for what the stack does."""
    channel = Channel(directory, doorbell)

    def work() -> protocol.Completed:
        serve(protocol.read_request(directory), channel)
        return protocol.Completed()

    outcome: protocol.Completed | protocol.Failed = attempt(
        work, lambda problem: explain(problem, channel.phase)
    )
    channel.respond(outcome)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not through the interpreter's shutdown: stacks crash and hang there.
    os._exit(0)


def attempt(work: Callable[[], Any], explain: Callable[[BaseException], Any]) -> Any:
    """Return what `work` returns or, when the stack raises instead, what `explain` makes of that."""
    try:
        return work()
    except BaseException as problem:  # noqa: BLE001 - the one place; see the module's docstring
        traceback.print_exc()
        return explain(problem)


def explain(problem: BaseException, phase: str) -> protocol.Failed:
    """Turn whatever was raised in `phase` into an outcome."""
    if isinstance(problem, OutcomeError):
        return problem.outcome
    if isinstance(problem, ModelError):
        return protocol.Failed("model-refused", phase, str(problem), problem.fix)
    if isinstance(problem, UnsupportedError):
        return protocol.Failed("unsupported", phase, str(problem))
    if isinstance(problem, protocol.VersionMismatchError):
        return protocol.Failed(
            "unsupported", phase, str(problem), "use a worker and an advisor of the same release"
        )
    reason = first_line(problem)
    if type(problem).__name__ in OUT_OF_MEMORY_NAMES or "out of memory" in reason.lower():
        return protocol.Failed("out-of-memory", phase, reason)
    if phase in {"start", "import"}:
        return protocol.Failed("unsupported", phase, f"the stack does not import: {reason}")
    if phase == "load":
        fix = "open the model by itself in the same interpreter and mend what it says"
        return protocol.Failed("model-refused", phase, f"the model cannot be opened: {reason}", fix)
    return protocol.Failed("build-failed", phase, reason)


def first_line(problem: BaseException) -> str:
    """Return the exception's type and the first line that says something, without colours, at most 500 characters.

    A line that ends with a colon only announces what follows: the reason is in the next.
    """
    lines = [line.strip() for line in COLOURS.sub("", str(problem)).splitlines() if line.strip()]
    reason = next(
        (number for number, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1
    )
    return f"{type(problem).__name__}: {' '.join(lines[: reason + 1]) or 'no message'}"[:500]


def serve(request: protocol.Request, channel: Channel) -> None:
    """Go through all phases; leave by an exception when there is nothing more to measure."""
    channel.enter("import")
    memory.keep_freed_blocks()
    with stopwatch() as imported:
        workflow = load_workflow(pathlib.Path(request.workflow_file))
        versions = workflow.versions()
        settings = workflow.settings(request)
    channel.tell(
        protocol.Imported(versions, settings, imported(), installed_packages(request.role))
    )
    if channel.token()[0] != "build":
        return
    channel.enter("load")
    if request.task not in getattr(workflow, "TASKS", (protocol.FORWARD,)):
        message = f"this release of p3-advisor does not probe it for the task {request.task}"
        raise UnsupportedError(message)
    with stopwatch() as loaded:
        subject: Subject = workflow.open_subject(request)
    channel.tell(
        protocol.Loaded(
            loaded(),
            subject.parameters,
            subject.parameter_bytes,
            subject.weights,
            subject.unit,
            subject.units_per_sample,
        )
    )
    if request.role == "reference":
        for size in request.batch_sizes:
            make_reference(workflow, subject, size, request, channel)
        channel.tell(protocol.Ready())
        answer_questions(request, channel)
        return
    if request.role == "build":
        build_for_elsewhere(workflow, subject, request, channel)
        return
    scratch = pathlib.Path(request.scratch_directory)
    bytes_before = caches.count_bytes(scratch)
    cells = {
        size: build_cell(workflow, subject, size, request, channel) for size in request.batch_sizes
    }
    channel.tell(protocol.Caches(bytes_before, caches.count_bytes(scratch), caches.count_hits()))
    prove_engagement(workflow, cells[request.batch_sizes[-1]], request, channel)
    allowances = {
        size: dispatch.allowance(cell.reference, subject.dtype) for size, cell in cells.items()
    }
    report_recipe_facts(workflow, allowances, request, channel)
    blocks = {
        size: warm_cell(workflow, size, cell, request, channel) for size, cell in cells.items()
    }
    channel.tell(memory.read())
    # The stack's objects are there to stay: without this, collecting before each visit would walk
    # them all and take longer than the visit.
    gc.collect()
    gc.freeze()
    channel.enter("measure")
    channel.tell(protocol.Ready())
    Service(
        workflow, subject, cells, blocks, request, channel, lambda work: attempt(work, first_line)
    ).answer()
    channel.tell(memory.read())


def build_for_elsewhere(
    workflow: Any, subject: Subject, request: protocol.Request, channel: Channel
) -> None:
    """Build for the device that the options name, which is not here, and leave the artefact in the scratch directory."""
    size = request.batch_sizes[-1]
    channel.enter("build", size)
    with stopwatch() as built:
        workflow.build_for(
            str(request.options["target"]), subject, subject.inputs(size, 0), request
        )
    channel.tell(protocol.Built(size, built(), 0.0))


def load_workflow(file: pathlib.Path) -> Any:
    """Load the workflow's module from `file` as a member of `probes.workflows`."""
    name = f"probes.workflows.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        message = f"no workflow can be loaded from {file}"
        raise ImportError(message)
    module: types.ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def installed_packages(role: str) -> protocol.Environment | None:
    """Return this worker's environment if the worker is measured; None if reading it fails."""
    if role != "measure":
        return None
    found: protocol.Environment | None = attempt(environment.read_environment, lambda _: None)
    return found


@contextlib.contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yield a function that, after the block, returns the seconds it took."""
    start = time.perf_counter()
    taken = 0.0
    yield lambda: taken
    taken = time.perf_counter() - start


def make_reference(
    workflow: Any, subject: Subject, batch_size: int, request: protocol.Request, channel: Channel
) -> None:
    """Leave inputs and reference outputs of one batch size for the workers that are timed, and say how much work a call is."""
    channel.enter("correctness", batch_size)
    inputs = [subject.inputs(batch_size, number) for number in range(request.input_sets)]
    program: Program = workflow.build(subject, inputs[0], request)
    dispatch.make(
        workflow, subject, program, inputs, dispatch.file_of(request, batch_size), request.task
    )
    channel.tell(dispatch.demand(subject, inputs[0], batch_size, request))


def build_cell(
    workflow: Any, subject: Subject, batch_size: int, request: protocol.Request, channel: Channel
) -> Cell:
    """Build one batch size and check it; raise `OutcomeError` when its outputs are wrong."""
    channel.enter("build", batch_size)
    reference = dispatch.load(request, batch_size)
    with stopwatch() as built:
        program: Program = workflow.build(subject, reference.inputs[0], request)
    fed = [program.feed(arguments) for arguments in reference.inputs]
    with stopwatch() as first_call:
        program(fed[0])
        workflow.synchronise()
    channel.tell(protocol.Built(batch_size, built(), first_call()))
    channel.enter("correctness", batch_size)
    record, reason = dispatch.judge(workflow, program, fed, reference, subject.dtype, batch_size)
    channel.tell(record)
    if reason is not None:
        raise OutcomeError(
            protocol.Failed("incorrect", "correctness", f"batch size {batch_size}: {reason}")
        )
    return Cell(program, fed, reference)


def prove_engagement(
    workflow: Any, cell: Cell, request: protocol.Request, channel: Channel
) -> None:
    """Ask the workflow for its proof; raise `OutcomeError` when too little of the work is on the compiled path."""
    engagement = workflow.engagement(cell.program, cell.fed[0])
    channel.tell(engagement)
    if engagement.share < request.minimum_engaged_share:
        raise OutcomeError(protocol.Failed("not-engaged", "correctness", engagement.proof))


def report_recipe_facts(
    workflow: Any, allowances: dict[int, Any], request: protocol.Request, channel: Channel
) -> None:
    """Report what the arm's script needs; a failure is logged and does not end the worker."""

    def collect() -> protocol.RecipeFacts:
        return protocol.RecipeFacts(
            allowances,
            workflow.serving_command(request) if hasattr(workflow, "serving_command") else None,
            workflow.integration(request) if request.task == protocol.GENERATE else "",
        )

    facts: protocol.RecipeFacts | None = attempt(collect, lambda _: None)
    if facts is not None:
        channel.tell(facts)


def warm_cell(
    workflow: Any,
    batch_size: int,
    cell: Cell,
    request: protocol.Request,
    channel: Channel,
) -> timing.Block:
    """Warm one batch size up and return the size of its visits."""
    channel.enter("warmup", batch_size)
    wait = device_synchronise()
    late = (
        sync_check.device_share(cell.program, cell.fed[0], workflow.synchronise, wait)
        if wait
        else sync_check.output_share(
            cell.program, cell.program.collect, cell.fed[0], workflow.synchronise
        )
    )
    if late > MOST_LATE_WORK:
        reason = f"its calls return before their work is done: it goes on for {late:.0%} of a call"
        raise OutcomeError(protocol.Failed("incorrect", "warmup", reason))
    warmth = timing.warm_up(cell.program, cell.fed, workflow.synchronise, request.warmup_seconds)
    block = timing.size_block(warmth.typical_seconds, request.block_seconds)
    channel.tell(
        protocol.WarmedUp(
            batch_size,
            warmth.typical_seconds,
            warmth.calls,
            warmth.calls_until_steady,
            warmth.steady,
            block.calls,
        ),
    )
    return block


def device_synchronise() -> Callable[[], None] | None:
    """Return a wait for everything on the GPU, by PyTorch where it is loaded and uses one; else there is no device to ask."""
    torch = sys.modules.get("torch")
    return torch.cuda.synchronize if torch is not None and torch.cuda.is_initialized() else None


def answer_questions(request: protocol.Request, channel: Channel) -> None:
    """Hold what memory the advisor wants to see, until it asks for the peaks or for the end."""
    with contextlib.ExitStack() as held:
        while (token := channel.token())[0] == "allocate":
            channel.enter("measure")
            held.close()
            if int(token[1]):
                held.enter_context(memory.hold(int(token[1]), request.device))
            channel.tell(protocol.Ready())
    if token[0] == "peaks":
        channel.enter("measure")
        measure_peaks(request, channel)


def measure_peaks(request: protocol.Request, channel: Channel) -> None:
    """Measure how fast the device can be, where PyTorch is there to do it."""
    if "torch" in sys.modules:
        from probes.stacks import device_peaks  # noqa: PLC0415 - imports torch, which not every worker has

        channel.tell(device_peaks.measure(request.device, request.dtype))
