"""The commands over the stored runs: a list of them, single files for other machines and from them, notes, and their end."""

from __future__ import annotations

import pathlib
import platform
from typing import Annotated

import msgspec
import typer

from advisor.cli import context
from advisor.cli.options import AsJson, RunName
from advisor.cli.output import STANDARD_OUTPUT, put, write

app = typer.Typer(rich_markup_mode=None)


@app.command()
def history(
    *,
    model: Annotated[str, typer.Option(help="only runs whose model's name has this in it")] = "",
    device: Annotated[
        str, typer.Option(help="only runs on a device whose name has this in it")
    ] = "",
    noted: Annotated[str, typer.Option(help="only runs whose note has this in it")] = "",
    since: Annotated[
        str, typer.Option(metavar="DATE", help="only runs from this day on, such as 2026-11-21")
    ] = "",
    finished: Annotated[
        bool | None,
        typer.Option("--finished/--stopped", help="only runs that were finished, or that were not"),
    ] = None,
    imported: Annotated[
        bool | None,
        typer.Option("--imported/--own", help="only runs from other machines, or from this one"),
    ] = None,
    json: AsJson = False,
) -> None:
    """List the stored runs, newest first."""
    from advisor.report.table import align
    from advisor.store import Filter

    wanted = Filter(
        model=model, device=device, note=noted, since=since, finished=finished, imported=imported
    )
    entries = context.store().history(wanted)
    if json:
        put(msgspec.json.encode(entries))
        return
    rows = [["run", "created", "model", "device", "state", "note"]]
    for entry in entries:
        state = ("finished" if entry.finished else "stopped") + (
            ", imported" if entry.imported else ""
        )
        rows.append([entry.run_id, entry.created, entry.model, entry.device, state, entry.note])
    nothing = "No runs yet. p3-advisor --json makes one." if wanted == Filter() else "No run fits."
    put("\n".join(align(rows)) if entries else nothing)


@app.command("export-run")
def export_run(
    run: RunName = "latest",
    *,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="default: the run's id with .p3run"),
    ] = "",
    host_name: Annotated[
        bool, typer.Option("--host-name", help="say in the file which machine it is from")
    ] = False,
) -> None:
    """Write a run as one file for another machine; it names neither this machine nor its interpreters."""
    from advisor.store import exchange

    found = context.store().find(run)
    content = exchange.pack(found, platform.node() if host_name else None)
    file = output or f"{found.directory.name}{exchange.SUFFIX}"
    write(file, content)
    if file != STANDARD_OUTPUT:
        put(file)


@app.command("import-run")
def import_run(
    files: Annotated[list[str], typer.Argument(help="files that export-run wrote")],
) -> None:
    """Take in runs from other machines, each whole or not at all; they count as evidence, and nothing of them is executed."""
    from advisor.pipeline.decision import examine
    from advisor.store import exchange

    store = context.store()
    for file in files:
        header, events = exchange.read(pathlib.Path(file))
        examine(header, events, file)
        run = exchange.put(store, header, events)
        put(f"{run.directory.name}  {header.question.model.name}")


@app.command()
def note(
    run: RunName,
    text: Annotated[str, typer.Argument(help="a line to remember it by; empty removes it")],
) -> None:
    """Write a line about a run, which the history shows."""
    context.store().find(run).write_note(text)


@app.command()
def delete(
    runs: Annotated[list[str], typer.Argument(help="ids of runs, or beginnings of them")],
) -> None:
    """Remove stored runs for good."""
    store = context.store()
    for run in runs:
        put(store.delete(run))
