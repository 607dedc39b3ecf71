"""`workflows` and `doctor`, which look at this machine, and `mcp` and `skill` for coding agents."""

from __future__ import annotations

import importlib.resources
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.ask.run_options import RunOptions
from advisor.cli.options import AsJson, GroupedCommand, takes_run_options
from advisor.cli.output import make_context, print_rows, print_text
from advisor.errors import MissingExtraError
from advisor.version import how_to_install

if TYPE_CHECKING:
    from advisor.context import Context

app = typer.Typer(rich_markup_mode=None)


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow in the list."""

    id: str
    title: str
    status: str
    reason: str | None
    fix: str | None
    #: The interpreter of its workers; null when the workflow does not apply.
    python: str | None
    verified: tuple[str, ...]


@app.command(cls=GroupedCommand, rich_help_panel="This machine")
@takes_run_options
def workflows(run_options: RunOptions, *, json: AsJson = False) -> None:
    """List the workflows that apply. Others have a reason and the step that enables them."""
    from advisor.report.formatting import plain_table

    rows = list_workflows(run_options, make_context())

    def render() -> list[str]:
        table = [["workflow", "here", "verified", "runs in"]]
        notes = []
        for row in rows:
            table.append([row.id, row.status, ", ".join(row.verified) or "never", row.python or ""])
            fix = f"; next: {row.fix}" if row.fix else ""
            notes += [f"  {row.id}: {row.reason}{fix}"] if row.reason else []
        return [*plain_table(table), "", *notes]

    print_rows(rows, render, json=json)


@app.command(rich_help_panel="This machine")
def doctor(
    *,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="interpreter that has the stacks")
    ] = "",
    json: AsJson = False,
) -> None:
    """Check GPU, interpreter, disk and environments. Exit code 3 if a check fails."""
    from advisor.doctor import examine
    from advisor.report.formatting import plain_table
    from advisor.store.store import default_home

    findings = examine(python or sys.executable, default_home(os.environ), os.environ)

    def render() -> Iterator[str]:
        rows = [[finding.status, finding.name, finding.what] for finding in findings]
        for line, finding in zip(plain_table(rows), findings, strict=True):
            yield line
            if finding.fix:
                yield f"      next: {finding.fix}"

    print_rows(findings, render, json=json)
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(3)


def list_workflows(run_options: RunOptions, context: Context) -> list[WorkflowRow]:
    """Return every workflow with its status for this machine and question."""
    from advisor.ask.devices import VISIBLE_DEVICES
    from advisor.ask.obstacles import environment_interpreter, find_obstacle
    from advisor.ask.resolve import resolve, worker_interpreter
    from advisor.execute.drafts import detect_machine

    catalogue = context.catalogue()
    machine = detect_machine(worker_interpreter(run_options), catalogue, context)
    resolved = resolve(run_options, machine, catalogue, context.environment.get(VISIBLE_DEVICES))
    rows = []
    # A stack may have another distribution, and so another environment, on this device.
    for workflow in catalogue.for_question(resolved).workflows:
        obstacle = find_obstacle(workflow, resolved, machine)
        interpreter = None
        if obstacle is None:
            own = environment_interpreter(workflow, machine)
            interpreter = own or machine.software.executable
        rows.append(
            WorkflowRow(
                id=workflow.id,
                title=workflow.title,
                status=obstacle.status if obstacle else "applies",
                reason=obstacle.reason if obstacle else None,
                fix=obstacle.fix if obstacle else None,
                python=interpreter,
                verified=workflow.verified,
            )
        )
    return rows


@app.command(rich_help_panel="Coding agents")
def mcp() -> None:
    """Serve the commands to a coding agent on standard input and output (MCP)."""
    try:
        from advisor.mcp_server import serve
    except ModuleNotFoundError as problem:
        raise MissingExtraError(
            f"the package {problem.name} is not installed", how_to_install("mcp")
        ) from problem
    serve()


@app.command(rich_help_panel="Coding agents")
def skill() -> None:
    """Print a SKILL.md that tells a coding agent how to speed up a model."""
    print_text(importlib.resources.files("advisor").joinpath("SKILL.md").read_text("utf-8"))
