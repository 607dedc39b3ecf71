"""The command that writes reports of stored runs."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.output import open_store, print_text, write_output
from advisor.errors import (
    FormatError,
    NoExportError,
)

if TYPE_CHECKING:
    from advisor.domain.answer import Answer

app = typer.Typer(rich_markup_mode=None)

#: Formats of a report, and how the name of its file ends.
FORMATS = {
    "html": ".html",
    "md": ".md",
    "csv": ".csv",
    "json": ".json",
    "parquet": ".parquet",
    "junit": ".junit.xml",
    "openmetrics": ".openmetrics.txt",
    "github-summary": "",
}
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
            "--format", "--to", "-f", metavar="FORMATS", help=f"one or more of {', '.join(FORMATS)}"
        ),
    ] = "html",
    directory: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where the files go")
    ] = ".",
) -> None:
    """Write a report of one run, or of runs on several devices."""
    from advisor.decide.decision import decide
    from advisor.report import opening, page
    from advisor.report.exports import csv_rows
    from advisor.report.recipes import server_recipe

    selected = parse_formats(formats)
    names = runs or ["latest"]
    store = open_store()
    if opening.is_file(names[0]):
        # It has no recipe, which needs the run itself.
        answer = opening.open_answer(names[0], store)
        _write_reports(answer, selected, directory, _renderers(answer))
        return
    run, *elsewhere = [store.find(name) for name in names]
    answer = decide(run, platforms=elsewhere)
    renderers = _renderers(answer) | {
        "html": lambda: page.render(answer, server_recipe.render_recommended(answer, run)),
        "csv": lambda: csv_rows.render([answer, *map(decide, elsewhere)]),
    }
    _write_reports(answer, selected, directory, renderers)


def _renderers(answer: Answer) -> dict[str, Callable[[], str | bytes]]:
    """Return the function that renders each format of one answer."""
    from advisor.domain.answer import encode
    from advisor.report import markdown, page
    from advisor.report.exports import csv_rows, formats, parquet

    return {
        "html": lambda: page.render(answer),
        "md": lambda: markdown.render(answer),
        "csv": lambda: csv_rows.render([answer]),
        "json": lambda: encode(answer),
        "parquet": lambda: formats.encode(parquet.encode_answer, answer),
        "junit": lambda: formats.encode(formats.to_junit, answer),
        "openmetrics": lambda: formats.encode(formats.to_openmetrics, answer),
        "github-summary": lambda: markdown.render(answer),
    }


def _write_reports(
    answer: Answer,
    selected: Sequence[str],
    directory: str,
    renderers: Mapping[str, Callable[[], str | bytes]],
) -> None:
    """Write each format to a file of its own, and the summary of a GitHub workflow to its file."""
    for name in selected:
        content = renderers[name]()
        if name == "github-summary":
            _append_summary(str(content))
            continue
        file = pathlib.Path(directory) / f"{answer.run_id}{FORMATS[name]}"
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
    selected = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in selected if name not in FORMATS]
    if unknown or not selected:
        raise FormatError(
            f"unknown format {unknown[0] if unknown else text!r}",
            f"use one or more of {', '.join(FORMATS)}",
        )
    return list(dict.fromkeys(selected))
