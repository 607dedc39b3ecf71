"""The commands with which an answer leaves the terminal: reports, recipes and their verification, comparisons."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from advisor.cli import context
from advisor.cli.options import AsJson, RunName
from advisor.cli.output import STANDARD_OUTPUT, put, write
from advisor.errors import (
    FormatError,
    NotComparableError,
    OutputFileError,
    RunIsImportedError,
    SizeError,
)

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision
    from advisor.report.document import RunDocument
    from advisor.store import Run

app = typer.Typer(rich_markup_mode=None)

FORMATS = ("html", "md", "csv", "json")
Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="where to write; - for standard output"),
]


@app.command()
def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="a run, or one for each device to compare; default: latest"),
    ] = None,
    *,
    formats: Annotated[
        str, typer.Option("--format", "-f", help=f"one or more of {', '.join(FORMATS)}")
    ] = "html",
    directory: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where the files go")
    ] = ".",
) -> None:
    """Write the scored comparison of a run, or of the same question on several devices."""
    from advisor.report import csv_rows, document, markdown, page, recipe

    wanted = parse_formats(formats)
    store = context.store()
    run, *elsewhere = [store.find(name) for name in runs or ["latest"]]
    decision, composed = _decide(run, elsewhere)
    makers = {
        "html": lambda: page.render(composed, recipe.recommended(composed, decision.state)),
        "md": lambda: markdown.render(composed),
        "csv": lambda: csv_rows.render([composed, *(_decide(each)[1] for each in elsewhere)]),
        "json": lambda: document.encode(composed),
    }
    for name in wanted:
        file = pathlib.Path(directory) / f"{composed.run_id}.{name}"
        write(str(file), makers[name]())
        put(str(file))


@app.command()
def recipe(
    run: RunName = "latest",
    *,
    workflow: Annotated[
        str, typer.Option(help="a workflow or arm; default: the recommended one")
    ] = "",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Write the script that does what was measured: same model, precision, shapes and versions."""
    from advisor.report import recipe as recipes

    decision, composed = _decide(context.store().find(run))
    entry, found = recipes.choose(composed, decision.state, workflow)
    name = pathlib.Path(output).name
    if recipes.is_in_the_way(name, found):
        raise OutputFileError(
            f"Python would import {name} in place of the module of that name",
            "name it otherwise, such as serve.py",
        )
    if composed.imported:
        context.say("the run was made on another machine: read the script before you run it")
    write(output, recipes.render(composed, entry, found))


@app.command()
def verify(
    run: RunName = "latest",
    *,
    workflow: Annotated[
        str, typer.Option(help="a workflow or arm; default: the recommended one")
    ] = "",
    seconds: Annotated[
        float, typer.Option(help="how long each batch size is timed", min=0.1)
    ] = 3.0,
    tolerance: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="how far beyond the measured interval is still the same"
        ),
    ] = "5%",
    json: AsJson = False,
) -> None:
    """Run the recipe where it was measured, and say whether the measured throughput holds; exit code 1 if it does not."""
    from advisor.probing import environments, rerun
    from advisor.report import recipe as recipes
    from advisor.report import verification

    share = parse_share(tolerance)
    decision, composed = _decide(context.store().find(run))
    if composed.imported:
        raise RunIsImportedError(
            f"run {composed.run_id} was made on another machine, so its recipe is a stranger's code",
            "read it: p3-advisor recipe",
        )
    entry, found = recipes.choose(composed, decision.state, workflow)
    question, machine = decision.header.question, decision.header.machine
    with tempfile.TemporaryDirectory() as scratch:
        variables = environments.worker_environment(
            dict(os.environ), question, environments.thread_count(machine), pathlib.Path(scratch)
        )
        patience = (question.max_build_seconds + 10 * seconds) * len(question.batch_sizes)
        script, probes = recipes.render(composed, entry, found), context.world().probes
        reached = rerun.run_recipe(script, found.interpreter, variables, seconds, patience, probes)
    told = [msgspec.convert(each, verification.Reached, from_attributes=True) for each in reached]
    verified = verification.verify(composed.run_id, entry, told, share)
    put(verification.encode(verified) if json else verification.render(verified), nl=False)
    if not verified.holds:
        raise typer.Exit(1)


@app.command()
def compare(
    before: RunName,
    after: RunName,
    *,
    fail_on_regression: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="leave with 1 when an arm is shown slower by more than this, such as 5%",
        ),
    ] = "",
    formats: Annotated[str, typer.Option("--format", "-f", help="text, md or json")] = "text",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Hold a run against an earlier one: what differs in question and machine first, then every arm's speed, with intervals."""
    from advisor.report import comparison

    makers = {
        "text": comparison.render,
        "md": comparison.render_markdown,
        "json": comparison.encode,
    }
    if formats not in makers:
        raise FormatError(f"there is no format {formats!r}", f"use one of {', '.join(makers)}")
    threshold = parse_share(fail_on_regression or "5%")
    store = context.store()
    first, second = (_decide(store.find(name))[1] for name in (before, after))
    found = comparison.compare(first, second, threshold)
    write(output, makers[formats](found))
    if fail_on_regression and not found.comparable:
        raise NotComparableError(
            comparison.closing(found)[0], "compare runs of the same question on the same device"
        )
    if fail_on_regression and found.regressions:
        raise typer.Exit(1)


def parse_share(text: str) -> float:
    """Return a share written as `5%` or `0.05`; raise `SizeError` for anything else."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise SizeError(f"{text!r} is no share", "write it as 5% or 0.05")
    return share


def parse_formats(text: str) -> list[str]:
    """Return the formats of a report; raise `FormatError` for one that there is not."""
    wanted = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in FORMATS]
    if unknown or not wanted:
        raise FormatError(
            f"there is no format {unknown[0] if unknown else text!r}",
            f"use one or more of {', '.join(FORMATS)}",
        )
    return list(dict.fromkeys(wanted))


def _decide(run: Run, platforms: Sequence[Run] = ()) -> tuple[Decision, RunDocument]:
    from advisor.pipeline.decision import decide
    from advisor.report import document

    decision = decide(run, platforms=platforms)
    return decision, document.compose(decision)
