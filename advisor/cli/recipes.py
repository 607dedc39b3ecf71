"""Commands that write the code of a workflow as it was measured, and run it again."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Annotated

import typer

from advisor.cli.context import make_context, open_store, print_status
from advisor.cli.options import AsJson, Output, StoredRunName, WorkflowName, parse_share
from advisor.cli.output import STANDARD_OUTPUT, print_text, write_output
from advisor.errors import FormatError, OutputFileError, RunIsImportedError

app = typer.Typer(rich_markup_mode=None)


@app.command()
def recipe(
    run: StoredRunName = "latest",
    *,
    workflow: WorkflowName = "",
    style: Annotated[
        str,
        typer.Option(
            metavar="STYLE",
            help="snippet: load, compile and call in a few lines, or the server that was under"
            " load; check: a script that also checks the outputs and the measured throughput;"
            " server: the command of the engine's server, or a server for a module; dockerfile: an"
            " image of it",
        ),
    ] = "snippet",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Write code that runs a workflow as it was measured."""
    from advisor.pipeline.decision import decide
    from advisor.report.recipes import found_recipe, script_recipe, server_recipe, short_recipe

    probes = make_context().probes
    styles: dict[str, Callable[..., str]] = {
        "snippet": short_recipe.render_short,
        "check": script_recipe.render,
        "server": server_recipe.render_server,
        "dockerfile": server_recipe.render_dockerfile,
    }
    if style not in styles:
        raise FormatError(f"unknown style {style!r}", f"use one of {', '.join(styles)}")
    stored = open_store().find(run)
    answer = decide(stored)
    entry, found = found_recipe.choose(answer, stored, workflow, probes)
    name = pathlib.Path(output).name
    if script_recipe.shadows_import(name, found.recipe):
        raise OutputFileError(
            f"a file named {name} would shadow the Python module of that name",
            "choose another name, such as recipe.py",
        )
    if answer.imported:
        print_status("the run comes from another machine: read the script before you run it")
    if found.is_source_changed and style == "check":
        print_status(found_recipe.SOURCE_CHANGED)
    write_output(output, styles[style](answer, entry, found))


@app.command()
def verify(
    run: StoredRunName = "latest",
    *,
    workflow: WorkflowName = "",
    seconds: Annotated[
        float, typer.Option(help="seconds of timing for each batch size", min=0.1)
    ] = 3.0,
    tolerance: Annotated[
        str,
        typer.Option(metavar="SHARE", help="tolerance beyond the measured interval"),
    ] = "5%",
    json: AsJson = False,
) -> None:
    """Run a recipe and check the measured throughput. Exit code 1 if it is not reached."""
    from advisor.domain.answer import encode
    from advisor.domain.worker_settings import thread_count
    from advisor.pipeline.decision import decide
    from advisor.probing import rerun
    from advisor.probing.environments.variables import worker_environment
    from advisor.report.recipes import found_recipe, script_recipe, verification

    share = parse_share(tolerance)
    stored = open_store().find(run)
    answer = decide(stored)
    if answer.imported:
        raise RunIsImportedError(
            f"run {answer.run_id} comes from another machine, so its recipe is not executed",
            f"read the recipe first: p3-advisor recipe {answer.run_id}",
        )
    probes = make_context().probes
    entry, found = found_recipe.choose(answer, stored, workflow, probes)
    if found.is_source_changed:
        print_status(found_recipe.SOURCE_CHANGED)
    question, machine = answer.question, answer.machine
    with tempfile.TemporaryDirectory() as scratch:
        variables = worker_environment(
            dict(os.environ), question, thread_count(machine), pathlib.Path(scratch)
        )
        timeout_seconds = (question.max_build_seconds + 10 * seconds) * len(question.batch_sizes)
        script, interpreter = (
            script_recipe.render(answer, entry, found),
            found.recipe.interpreter,
        )
        results = rerun.run_recipe(script, interpreter, variables, seconds, timeout_seconds, probes)
    verified = verification.verify(answer.run_id, entry, results, share)
    print_text(encode(verified) if json else verification.render(verified), nl=False)
    if not verified.holds:
        raise typer.Exit(1)
