"""`env`: create, list, check and remove the environments of workflows that need their own."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from advisor.cli.options import AsJson
from advisor.cli.output import make_context, print_rows, print_status, print_text
from advisor.text_format import MEBIBYTE

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.catalogue import Catalogue


class EnvironmentGroup(TyperGroup):
    """The commands on environments; Typer passes no section of the help on to a group."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - those of Typer
        super().__init__(**{**settings, "rich_help_panel": "This machine"})


app = typer.Typer(
    name="env",
    cls=EnvironmentGroup,
    help="Manage the environments of workflows that need their own.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Names = Annotated[list[str], typer.Argument(help="names of workflows or environments")]


class EnvironmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One environment in the list."""

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


@app.command("list")
def list_environments(*, json: AsJson = False) -> None:
    """List the environments with their state, size and workflows."""
    from advisor.report.formatting import plain_table

    rows = _environment_rows()

    def render() -> list[str]:
        table = [["environment", "state", "MiB", "licence", "for"]]
        for row in rows:
            state = f"{row.state}, with {', '.join(row.added)}" if row.added else row.state
            size, workflows = str(row.disk_mib or "?"), ", ".join(row.workflows)
            table.append([row.name, state, size, row.licence, workflows])
        return plain_table(table)

    print_rows(rows, render, json=json)


@app.command()
def create(
    names: Names,
    *,
    python: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="interpreter to create them with; default: the one that runs p3-advisor",
        ),
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
    from advisor.ask import detection
    from advisor.ask.obstacles import required_packages
    from advisor.probing.environments import creation, registry, uv_runner
    from advisor.probing.environments.uv_runner import BuildSettings

    context, catalogue, root = _load()
    settings = BuildSettings(
        root=root,
        rubric=context.rubric,
        inherited=context.environment,
        interpreter=detection.detect_interpreter(
            python or sys.executable, required_packages(catalogue)
        ),
        report=print_status,
        pip_settings=uv_runner.read_pip_settings(context.environment),
        offline=offline,
        added=tuple(map(_parse_requirement, added or ())),
    )
    chosen = registry.select(catalogue.workflows, names)
    for name, environment in chosen.items():
        footprint = environment.footprint
        size = (
            f"{footprint.disk_mib} MiB and {footprint.seconds} seconds when last measured"
            f" ({footprint.where})"
            if footprint
            else "size not measured yet"
        )
        lock = (
            ""
            if registry.lock_file(settings.rubric, name).is_file()
            else "; no lock file for this platform, so the newest versions are installed"
        )
        print_status(f"{name}: {size}; licence {environment.licence}{lock}")
        for device, other in registry.device_alternatives(catalogue.workflows, name).items():
            print_status(
                f"{name} does not serve {device}; for {device}: p3-advisor env create {other}"
            )
    for name, environment in chosen.items():
        print_text(creation.create(name, environment, settings))


@app.command()
def remove(names: Names) -> None:
    """Remove environments."""
    from advisor.probing.environments import creation, registry

    _, catalogue, root = _load()
    for name in registry.select(catalogue.workflows, names):
        print_status(
            f"{name}: {'removed' if creation.remove(name, root, print_status) else 'not created'}"
        )


def _parse_requirement(text: str) -> str:
    """Return a requirement in its normal form; raise `RequirementError` for anything else."""
    from packaging.requirements import InvalidRequirement, Requirement

    from advisor.errors import RequirementError

    try:
        return str(Requirement(text))
    except InvalidRequirement as problem:
        raise RequirementError(
            f"{text!r} is not a requirement",
            "name a package, and its versions if they matter, such as --with 'einops>=0.8'",
        ) from problem


def _load() -> tuple[Context, Catalogue, pathlib.Path]:
    """Return the context, the catalogue and the folder of all environments."""
    from advisor.probing.environments import registry

    context = make_context()
    return context, context.catalogue(), registry.default_root(context.environment)


def _environment_rows() -> list[EnvironmentRow]:
    from advisor.probing.environments import registry

    context, catalogue, root = _load()
    created = registry.find_created(root, catalogue.workflows, context.rubric)
    rows = []
    for name, environment in sorted(registry.own_environments(catalogue.workflows).items()):
        found = created.get(name)
        record = registry.read_record(pathlib.Path(found.python).parents[1]) if found else None
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
            locked=registry.lock_file(context.rubric, name).is_file(),
        )
        rows.append(row)
    return rows
