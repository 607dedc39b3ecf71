"""The commands with which an answer leaves the terminal: `report`, `recipe`, `verify`, `compare`, `export-run`, `import-run`."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.errors import FormatError, OutputFileError

if TYPE_CHECKING:
    from advisor.domain.state import RunState
    from advisor.report.document import RunDocument
    from advisor.store import Run, Store

app = typer.Typer(rich_markup_mode=None)

FORMATS = ("html", "md", "csv", "json")
#: Stands for standard output.
STANDARD_OUTPUT = "-"

RunName = Annotated[str, typer.Argument(help="a run's id, the beginning of one, latest, or its directory")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="where to write; - for standard output")]


@app.command()
def report(
    runs: Annotated[list[str] | None, typer.Argument(help="a run, or one for each device to compare; default: latest")] = None,
    *,
    formats: Annotated[str, typer.Option("--format", "-f", help=f"one or more of {', '.join(FORMATS)}")] = "html",
    directory: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="where the files go")] = ".",
) -> None:
    """Write the scored comparison of a run, or of the same question on several devices."""
    from advisor.report import document, markdown, page, platforms, recipe, tidy

    wanted = parse_formats(formats)
    store = _store()
    read = [_compose(store.find(run)) for run in runs or ["latest"]]
    composed, state = read[0]
    places = [
        platforms.Platform(document=each, recipes={arm: found for arm in held.processes if (found := recipe.stored(held, arm))})
        for each, held in read
    ]
    standings = platforms.compare(places) if len(places) > 1 else ()
    script = None
    if composed.recommendation is not None and recipe.stored(state, composed.recommendation.arm):
        script = recipe.render(composed, *recipe.choose(composed, state, ""))
    makers = {
        "html": lambda: page.render(composed, script, standings),
        "md": lambda: markdown.render(composed),
        "csv": lambda: tidy.render([each for each, _ in read]),
        "json": lambda: document.encode(composed),
    }
    for name in wanted:
        file = pathlib.Path(directory) / f"{composed.run_id}.{name}"
        write(str(file), makers[name]())
        typer.echo(str(file))


@app.command()
def recipe(
    run: RunName = "latest",
    *,
    workflow: Annotated[str, typer.Option(help="a workflow or arm; default: the recommended one")] = "",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Write the script that does what was measured: same model, precision, shapes and versions."""
    from advisor.report import recipe as recipes

    composed, state = _compose(_store().find(run))
    script = recipes.render(composed, *recipes.choose(composed, state, workflow))
    if composed.imported:
        typer.echo("p3-advisor: the run was made on another machine: read the script before you run it", err=True)
    write(output, script)


def parse_formats(text: str) -> list[str]:
    """Return the formats of a report; raise `FormatError` for one that there is not."""
    wanted = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in FORMATS]
    if unknown or not wanted:
        raise FormatError(f"there is no format {unknown[0] if unknown else text!r}", f"use one or more of {', '.join(FORMATS)}")
    return list(dict.fromkeys(wanted))


def write(output: str, text: str) -> None:
    """Write text to a file, or to standard output; raise `OutputFileError` where that cannot be."""
    if output == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    try:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(output).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise OutputFileError(f"{output} cannot be written: {problem.strerror}", "name another place with --output") from problem


def _store() -> Store:
    from advisor.store import Store, default_home

    return Store(default_home(os.environ))


def _compose(run: Run) -> tuple[RunDocument, RunState]:
    from advisor import pipeline
    from advisor.report import document

    decision = pipeline.decide(run)
    composed = document.compose(
        decision.header, decision.state, decision.results, decision.scored, decision.recommendation, decision.problem
    )
    return composed, decision.state
