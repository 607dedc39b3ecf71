"""Run a worker through its phases: import, load, build, check, warm up, visits, response."""

from __future__ import annotations

import gc
import os
import pathlib
import sys
from typing import Any

from probes import events, protocol, sandbox
from probes.adapter import NotEngagedError, UnsupportedError, Workflow
from probes.checking import program_cell
from probes.checking.program_cell import ProgramCell
from probes.commands import Build, CreateModel, OpenModel, Prepare, WarmUp
from probes.facts import FREED_MEMORY
from probes.files import count_bytes, load_module
from probes.host import Host
from probes.outcome import Outcome
from probes.runtime import flexibility, process, reference
from probes.runtime.built_worker import BuiltWorker
from probes.runtime.cells import (
    Job,
    build_cells,
    create_model,
    import_compiler,
    load_subject,
    report_losses,
    warm_up_cell,
)
from probes.runtime.channel import Channel
from probes.runtime.failures import attempt, classify, try_optional
from probes.shape import Shape


def run(directory: pathlib.Path, notify_fd: int) -> None:
    """Answer the request and end the process; never raise for what the stack does."""
    channel = Channel(directory, notify_fd)
    channel.keep_input()
    request: protocol.Request | None = None

    def work() -> Outcome:
        nonlocal request
        request = protocol.read_request(directory)
        if request.sandbox:
            scratch = pathlib.Path(request.scratch_directory)
            own = (directory, scratch, pathlib.Path(request.shared_directory))
            try:
                sandbox.enter(own, scratch / protocol.TEMPORARY_FOLDER)
            except OSError as problem:
                raise UnsupportedError(f"the sandbox cannot be entered: {problem}") from problem
        run_phases(request, channel)
        return Outcome()

    channel.respond(
        attempt(work, lambda problem: Outcome(classify(problem, channel.phase, request)))
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's shutdown, in which stacks crash and hang.
    os._exit(0)


def run_phases(request: protocol.Request, channel: Channel) -> None:
    """Do what the role of the worker asks for; raise where nothing more can be measured."""
    if request.role == "snippet":
        from probes.runtime import snippet  # noqa: PLC0415 - most workers run none

        snippet.run_role(request, channel)
        return
    job = Job(request, channel, import_workflow(request, channel))
    if request.role == "reference":
        reference.run_role(job)
        return
    import_compiler(job)
    command = channel.read_command()
    if isinstance(command, CreateModel):
        create_model(job)
        command = channel.read_command()
    if isinstance(command, OpenModel):
        load_subject(job)
        command = channel.read_command()
    if isinstance(command, (Build, Prepare)):
        if job.subject is None:
            load_subject(job)
        run_measured_role(job, command)


def import_workflow(request: protocol.Request, channel: Channel) -> Workflow:
    channel.start_phase("import")
    keeps_freed_blocks = process.keep_freed_blocks()
    file = pathlib.Path(request.workflow_file)
    workflow = Workflow(load_module(f"probes.workflows.{file.stem}", file))
    if request.role == "serve":
        from probes.runtime.server_workflow import ServedWorkflow  # noqa: PLC0415 - most serve nothing

        workflow = ServedWorkflow(workflow)
    versions, settings = workflow.versions(), workflow.settings(request)
    if keeps_freed_blocks and request.device == "cpu" and request.role != "serve":
        settings = {**settings, FREED_MEMORY: "kept"}
    found = try_optional(process.read_environment) if request.role in {"measure", "serve"} else None
    channel.send(events.Imported(versions, settings, found))
    return workflow


def run_measured_role(job: Job, command: Build | Prepare) -> None:
    request, channel, workflow = job.request, job.channel, job.workflow
    scratch = pathlib.Path(request.scratch_directory)
    # Bytes in the arm's own folder show whether its first build began with cold caches.
    bytes_before = count_bytes(scratch)
    cells = build_cells(job, waits=isinstance(command, Prepare) and command.waits)
    channel.send(events.Caches(bytes_before, count_bytes(scratch)))
    last = cells[request.shapes[-1]]
    engagement = workflow.engagement(last.program, last.device_inputs[0])
    channel.send(engagement)
    if engagement.share < request.minimum_engaged_share:
        raise NotEngagedError(engagement.proof)
    facts = try_optional(lambda: snippet_facts(job, cells))
    if facts is not None:
        channel.send(facts)
    report_losses(cells, job)
    if request.role == "serve":
        served: Any = workflow
        channel.send(served.address())
    if isinstance(command, Prepare):
        channel.send(events.Prepared())
        if not isinstance(channel.read_command(), WarmUp):
            return
    sizes = {shape: warm_up_cell(cell, job) for shape, cell in cells.items()}
    channel.send(workflow.read_memory() or process.read_peaks())
    # The stack's objects stay alive. Without this, the garbage collection before each visit would
    # walk all of them and take longer than the visit.
    gc.collect()
    gc.freeze()
    channel.start_phase("measure")
    channel.send(events.Ready())
    host = Host(job.request.most_host_slowdown) if job.request.device == "cuda" else None
    BuiltWorker(job, cells, sizes, host).answer_commands()
    channel.send(workflow.read_memory() or process.read_peaks())


def snippet_facts(job: Job, cells: dict[Shape, ProgramCell]) -> events.SnippetFacts:
    workflow, subject, request = job.workflow, job.subject, job.request
    return events.SnippetFacts(
        allowances={
            str(shape): program_cell.eager_allowance(
                cell.reference, cell.rules, is_close=cell.is_close
            )
            for shape, cell in cells.items()
        },
        serving_command=workflow.serving_command(request),
        integration=workflow.integration(subject, request),
        inputs=subject.describe_inputs(),
        coupled_rows=flexibility.read_coupled_rows(request),
        complex_weights=subject.complex_weights,
        fixed_mode=subject.fixed_mode,
        starts=workflow.starts(subject, request),
    )
