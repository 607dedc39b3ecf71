"""`workflows`, `doctor` and `env`, about this machine, and `mcp` and `skill` for coding agents.

`env` creates, lists and removes the environments of workflows that need their own.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.ask.run_options import RunOptions
from advisor.cli.options import AsJson, GroupedCommand, SuggestingGroup, takes_run_options
from advisor.cli.output import SKILL, make_context, print_rows, print_status, print_text
from advisor.domain.errors import MissingExtraError, OptionValueError, reported_as
from advisor.domain.text import MEBIBYTE
from advisor.domain.version import how_to_install

if TYPE_CHECKING:
    from advisor.ask.context import Context
    from advisor.domain.catalogue import Catalogue

app = typer.Typer(rich_markup_mode=None)


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    status: str = "applies"
    reason: str | None = None
    fix: str | None = None
    #: The interpreter of its workers; null when the workflow does not apply.
    python: str | None = None
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
    from advisor.cli.doctor import examine
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
    from advisor.ask.devices import VISIBLE_DEVICES
    from advisor.ask.obstacles import environment_interpreter, find_obstacle
    from advisor.ask.resolve import resolve, worker_interpreter
    from advisor.domain.plan import EAGER, ArmName
    from advisor.execute.drafts import detect_machine

    catalogue = context.catalogue()
    machine = detect_machine(worker_interpreter(run_options), catalogue, context)
    resolved = resolve(run_options, machine, catalogue, context.environment.get(VISIBLE_DEVICES))
    rows, named = [], {ArmName.parse(each).workflow for each in resolved.workflows}
    # A stack may have another distribution, and so another environment, on this device.
    for workflow in catalogue.for_question(resolved).workflows:
        if workflow.id in resolved.leave_out or (named and workflow.id not in {EAGER, *named}):
            continue
        row = WorkflowRow(id=workflow.id, title=workflow.title, verified=workflow.verified)
        if obstacle := find_obstacle(workflow, resolved, machine):
            why = {"status": obstacle.status, "reason": obstacle.reason, "fix": obstacle.fix}
            rows.append(msgspec.structs.replace(row, **why))
        else:
            python = environment_interpreter(workflow, machine) or machine.software.executable
            rows.append(msgspec.structs.replace(row, python=python))
    return rows


@app.command(rich_help_panel="Coding agents")
def mcp() -> None:
    """Serve the commands to a coding agent on standard input and output (MCP)."""
    try:
        from advisor.cli.mcp_server import serve
    except ModuleNotFoundError as problem:
        raise MissingExtraError(
            f"the package {problem.name} is not installed", how_to_install("mcp")
        ) from problem
    serve()


@app.command(rich_help_panel="Coding agents")
def skill() -> None:
    """Print a SKILL.md that tells a coding agent how to speed up a model."""
    print_text(SKILL.read_text("utf-8"))


environment_app = typer.Typer(
    cls=SuggestingGroup,
    name="env",
    help="Manage the environments of workflows that need their own.",
    rich_markup_mode=None,
)
app.add_typer(environment_app, rich_help_panel="This machine")

Names = Annotated[list[str], typer.Argument(help="names of workflows or environments")]


class EnvironmentRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    workflows: tuple[str, ...]
    #: `created`, `not created`, or its fault.
    state: str
    #: Requirements that the user has added.
    added: tuple[str, ...]
    disk_mib: int | None
    python: str | None
    licence: str
    locked: bool


@environment_app.command("list")
def list_environments(*, json: AsJson = False) -> None:
    """List the environments with their state, size and workflows."""
    from advisor.report.formatting import plain_table

    rows = _environment_rows()

    def render() -> list[str]:
        table = [["environment", "state", "MiB", "licence", "for"]]
        for row in rows:
            state = f"{row.state}, with {', '.join(row.added)}" if row.added else row.state
            size, users = str(row.disk_mib or "?"), ", ".join(row.workflows)
            table.append([row.name, state, size, row.licence, users])
        return plain_table(table)

    print_rows(rows, render, json=json)


@environment_app.command()
def create(
    names: Names,
    *,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="their interpreter; default: that of p3-advisor")
    ] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="install from uv's cache only")
    ] = False,
    added: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="REQUIREMENT",
            help="a package that the model imports, such as timm or einops>=0.8; repeatable;"
            " it stays until the environment is removed",
        ),
    ] = None,
) -> None:
    """Create environments. A working one is kept."""
    from advisor.ask.obstacles import required_packages
    from advisor.probing import detection, env_creation, env_registry, uv_runner
    from advisor.probing.uv_runner import BuildSettings

    context, catalogue, root = _load()
    settings = BuildSettings(
        root=root,
        catalogue_directory=context.catalogue_directory,
        inherited=context.environment,
        interpreter=detection.detect_interpreter(
            python or sys.executable, required_packages(catalogue)
        ),
        report=print_status,
        pip_settings=uv_runner.read_pip_settings(context.environment),
        offline=offline,
        added=tuple(map(_parse_requirement, added or ())),
    )
    chosen = env_registry.select(catalogue.workflows, names)
    for name, environment in chosen.items():
        is_locked = env_registry.lock_file(settings.catalogue_directory, name).is_file()
        lock = "" if is_locked else "; no lock file for this platform: the newest versions come"
        print_status(f"{name}: {environment.terms}{lock}")
        for device, other in env_registry.device_alternatives(catalogue.workflows, name).items():
            print_status(f"{name} does not serve {device}: p3-advisor env create {other} does")
    for name, environment in chosen.items():
        print_text(env_creation.create(name, environment, settings))


@environment_app.command()
def remove(names: Names) -> None:
    """Remove environments."""
    from advisor.probing import env_creation, env_registry

    _, catalogue, root = _load()
    for name in env_registry.select(catalogue.workflows, names):
        is_removed = env_creation.remove(name, root, print_status)
        print_status(f"{name}: {'removed' if is_removed else 'not created'}")


def _parse_requirement(text: str) -> str:
    """Return a requirement in its normal form; raise `OptionValueError` for anything else."""
    from packaging.requirements import InvalidRequirement, Requirement

    next_step = "name a package, and its versions if they matter, such as --with 'einops>=0.8'"
    what = f"{text!r} is not a requirement"
    with reported_as(OptionValueError, what, next_step, InvalidRequirement):
        return str(Requirement(text))


def _load() -> tuple[Context, Catalogue, pathlib.Path]:
    """Return the context, the catalogue and the folder of all environments."""
    from advisor.probing import env_registry

    context = make_context()
    return context, context.catalogue(), env_registry.default_root(context.environment)


def _environment_rows() -> list[EnvironmentRow]:
    from advisor.probing import env_registry

    context, catalogue, root = _load()
    created = env_registry.find_created(root, catalogue.workflows, context.catalogue_directory)
    rows = []
    for name, environment in sorted(env_registry.own_environments(catalogue.workflows).items()):
        found = created.get(name)
        record = env_registry.read_record(pathlib.Path(found.python).parents[1]) if found else None
        disk_mib = environment.footprint.disk_mib if environment.footprint else None
        row = EnvironmentRow(
            name=name,
            workflows=tuple(
                each.id
                for each in catalogue.workflows
                if name in {own.name for own in each.environments if own.kind == "own"}
            ),
            state=found.fault or "created" if found else "not created",
            added=record.added if record else (),
            disk_mib=record.disk_bytes // MEBIBYTE if record else disk_mib,
            python=found.python if found else None,
            licence=environment.licence,
            locked=env_registry.lock_file(context.catalogue_directory, name).is_file(),
        )
        rows.append(row)
    return rows
