"""`env`: the environments that are made for workflows which cannot share one."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli import context
from advisor.cli.options import AsJson
from advisor.cli.output import put

if TYPE_CHECKING:
    from advisor.domain.catalogue import Catalogue
    from advisor.probing.environments.creation import BuildSettings

MEBIBYTE = 2**20

app = typer.Typer(
    name="env",
    help="Make, list, check and remove the environments of workflows that cannot share one.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Names = Annotated[list[str], typer.Argument(help="workflows, or environments by name")]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One environment."""

    name: str
    workflows: tuple[str, ...]
    state: str
    disk_mib: int | None
    python: str | None
    licence: str
    locked: bool


@app.command("list")
def list_environments(*, json: AsJson = False) -> None:
    """List the environments: which are made, how big they are, and which workflows they are for."""
    from advisor.report.table import align

    rows = [_describe(name, *_known()) for name in _names()]
    if json:
        put(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return
    heading = ["environment", "state", "MiB", "licence", "for"]
    cells = [
        [row.name, row.state, str(row.disk_mib or "?"), row.licence, ", ".join(row.workflows)]
        for row in rows
    ]
    put("\n".join(align([heading, *cells])))


@app.command()
def create(
    names: Names,
    *,
    python: Annotated[
        str,
        typer.Option(help="interpreter to make them with; default: the one that runs p3-advisor"),
    ] = "",
    offline: Annotated[bool, typer.Option(help="use what uv has in its cache only")] = False,
) -> None:
    """Make environments; one that is there and works is left as it is."""
    for directory in make(names, python=python, offline=offline):
        put(directory)


def make(names: list[str], *, python: str = "", offline: bool = False) -> Iterator[pathlib.Path]:
    """Say what it takes, make each environment and yield its directory."""
    from advisor.probing.environments import creation, places

    known, root = _known()
    shop = _workshop(known, root, python, offline=offline)
    chosen = places.choose(known.workflows, names)
    for name, environment in chosen.items():
        seen = environment.seen
        size = (
            f"{seen.disk_mib} MiB and {seen.seconds} seconds where it was made last ({seen.where})"
            if seen
            else "size not known yet"
        )
        lock = (
            ""
            if places.lock_file(shop.rubric, name).is_file()
            else "; no lock ships for this platform, so newest versions are taken"
        )
        context.say(f"{name}: {size}; licence {environment.licence}{lock}")
        for device, other in places.find_others(known.workflows, name).items():
            context.say(
                f"{name} is not for {device}; what is used there is made by: p3-advisor env create {other}"
            )
    for name, environment in chosen.items():
        yield creation.create(name, environment, shop)


@app.command()
def remove(names: Names) -> None:
    """Remove environments."""
    from advisor.probing.environments import creation, places

    known, root = _known()
    for name in places.choose(known.workflows, names):
        context.say(
            f"{name}: {'removed' if creation.remove(name, root, context.say) else 'there was none'}"
        )


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="workflows or environments; default: all that are made"),
    ] = None,
) -> None:
    """Start each environment, import what it is for, and see that nothing in it was changed; exit status 3 if one does not work."""
    from advisor.errors import EnvironmentNotMadeError
    from advisor.probing.environments import health, places

    known, root = _known()
    made = places.find_made(root, known.workflows, _rubric())
    chosen = places.choose(known.workflows, names or sorted(made))
    faults = []
    for name, environment in chosen.items():
        here = made.get(name)
        fault = "it is not made" if here is None else here.fault
        if here is not None and fault is None:
            fault = health.check(
                pathlib.Path(here.python).parents[1], environment, os.environ
            ).fault
        put(f"{name}: {fault or 'it works'}")
        faults += [name] if fault else []
    if faults:
        raise EnvironmentNotMadeError(
            f"{len(faults)} of {len(chosen)} do not work",
            f"p3-advisor env create {' '.join(faults)}",
        )


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="a workflow, or an environment by name")],
) -> None:
    """Print the interpreter of an environment."""
    from advisor.errors import EnvironmentNotMadeError
    from advisor.probing.environments import places

    known, root = _known()
    (chosen,) = places.choose(known.workflows, [name])
    made = places.find_made(root, known.workflows, _rubric()).get(chosen)
    if made is None or made.fault:
        raise EnvironmentNotMadeError(
            f"{chosen}: {made.fault if made else 'it is not made'}", f"p3-advisor env create {name}"
        )
    put(made.python)


def _known() -> tuple[Catalogue, pathlib.Path]:
    from advisor import catalogue
    from advisor.probing.environments import places

    return catalogue.load(), places.default_root(os.environ)


def _rubric() -> pathlib.Path:
    from advisor import catalogue

    return catalogue.rubric_directory()


def _names() -> list[str]:
    from advisor.probing.environments import places

    return sorted(places.own_environments(_known()[0].workflows))


def _workshop(known: Catalogue, root: pathlib.Path, python: str, *, offline: bool) -> BuildSettings:
    from advisor import applicability, machine
    from advisor.probing.environments import sources
    from advisor.probing.environments.creation import BuildSettings

    return BuildSettings(
        root=root,
        rubric=_rubric(),
        inherited=dict(os.environ),
        interpreter=machine.detect_interpreter(
            python or sys.executable, applicability.required_packages(known)
        ),
        say=context.say,
        pip_settings=sources.read_pip_settings(os.environ),
        offline=offline,
    )


def _describe(name: str, known: Catalogue, root: pathlib.Path) -> Row:
    from advisor.probing.environments import places

    environment = places.own_environments(known.workflows)[name]
    made = places.find_made(root, known.workflows, _rubric()).get(name)
    record = places.read_record(pathlib.Path(made.python).parents[1]) if made else None
    seen = environment.seen
    return Row(
        name=name,
        workflows=tuple(
            each.id
            for each in known.workflows
            if name in {own.name for own in each.environments if own.kind == "own"}
        ),
        state="not made" if made is None else made.fault or "made",
        disk_mib=record.disk_bytes // MEBIBYTE if record else seen.disk_mib if seen else None,
        python=made.python if made else None,
        licence=environment.licence,
        locked=places.lock_file(_rubric(), name).is_file(),
    )
