"""The command that writes reports of stored runs."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.output import open_store, print_text, write_output
from advisor.errors import FormatError, NoExportError

if TYPE_CHECKING:
    from advisor.domain.answer import Answer

app = typer.Typer(rich_markup_mode=None)

#: The file to which a step of a GitHub workflow appends its summary.
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


@app.command()
def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="a run, or one run for each device; default: latest"),
    ] = None,
    *,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            "--to",
            "-f",
            metavar="FORMATS",
            help="one or more of html, md, csv, json, parquet, junit, openmetrics, github-summary",
        ),
    ] = "html",
    directory: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where the files go")
    ] = ".",
) -> None:
    """Write a report of one run, or of runs on several devices."""
    from advisor.decide.decision import decide
    from advisor.report import opening
    from advisor.report.recipes import server_recipe

    selected = parse_formats(formats)
    names = runs or ["latest"]
    store = open_store()
    if opening.is_file(names[0]):
        # It has no recipe, which needs the run itself.
        _write_reports(opening.open_answer(names[0], store), selected, directory)
        return
    run, *elsewhere = [store.find(name) for name in names]
    answer = decide(run, platforms=elsewhere)
    recipe = server_recipe.render_recommended(answer, run) if "html" in selected else None
    others = [decide(other) for other in elsewhere] if "csv" in selected else []
    _write_reports(answer, selected, directory, others, recipe)


def _write_reports(
    answer: Answer,
    selected: Sequence[str],
    directory: str,
    elsewhere: Sequence[Answer] = (),
    recipe: str | None = None,
) -> None:
    """Write each format to a file of its own, and the summary of a GitHub workflow to its file."""
    from advisor.report import exports

    for name in selected:
        content = exports.write(name, answer, elsewhere, recipe)
        if name == "github-summary":
            _append_summary(str(content))
            continue
        file = pathlib.Path(directory) / f"{answer.run_id}{exports.FORMATS[name].suffix}"
        write_output(str(file), content)
        print_text(str(file))


def _append_summary(text: str) -> None:
    file = os.environ.get(SUMMARY_VARIABLE)
    if not file:
        raise NoExportError(
            f"{SUMMARY_VARIABLE} is not set", "run it in a step of a GitHub workflow, or use md"
        )
    before = pathlib.Path(file).read_text(encoding="utf-8") if pathlib.Path(file).exists() else ""
    write_output(file, before + text)
    print_text(file)


def parse_formats(text: str) -> list[str]:
    """Parse the formats of a report; raise `FormatError`."""
    from advisor.report.exports import FORMATS

    selected = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in selected if name not in FORMATS]
    if unknown or not selected:
        raise FormatError(
            f"unknown format {unknown[0] if unknown else text!r}",
            f"use one or more of {', '.join(FORMATS)}",
        )
    return list(dict.fromkeys(selected))
