"""Commands that write reports, recipes and comparisons of stored runs."""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import sweeps
from advisor.cli.context import make_context, open_store, print_status
from advisor.cli.documents import is_document, open_document
from advisor.cli.options import AsJson, RunName
from advisor.cli.output import STANDARD_OUTPUT, print_text, write_output
from advisor.domain.sweep import is_sweep_id
from advisor.errors import (
    FormatError,
    NoExportError,
    NotComparableError,
    OutputFileError,
    RunIsImportedError,
    SizeError,
    UndecidedError,
)

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision
    from advisor.report.comparisons.comparison import Comparison
    from advisor.report.documents.document import RunDocument
    from advisor.store import Run

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
    "mlflow": "",
    "wandb-offline": "",
}
#: Formats that are no single file.
TRACKERS = ("mlflow", "wandb-offline")
#: The file to which a step of a GitHub workflow appends its summary.
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="where to write; - for standard output"),
]


@app.command()
def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="a run, one run for each device, or a sweep; default: latest"),
    ] = None,
    *,
    formats: Annotated[
        str, typer.Option("--format", "--to", "-f", help=f"one or more of {', '.join(FORMATS)}")
    ] = "html",
    directory: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where the files go")
    ] = ".",
) -> None:
    """Write a report of one run, or of runs on several devices."""
    from advisor.report import page
    from advisor.report.exports import csv_rows
    from advisor.report.recipes import recipe

    selected = parse_formats(formats)
    names = runs or ["latest"]
    if is_sweep_id(names[0]):
        sweeps.report(names[0], selected, directory)
        return
    if is_document(names[0]):
        # It has no recipe, which needs the run itself.
        run_document = open_document(names[0])
        _write_reports(run_document, selected, directory, _renderers(run_document))
        return
    store = open_store()
    run, *elsewhere = [store.find(name) for name in names]
    probes = make_context().probes
    decision, run_document = _decide(run, elsewhere)
    renderers = _renderers(run_document) | {
        "html": lambda: page.render(
            run_document, recipe.render_recommended(run_document, decision, probes)
        ),
        "csv": lambda: csv_rows.render([run_document, *(_decide(each)[1] for each in elsewhere)]),
    }
    _write_reports(run_document, selected, directory, renderers)


def _renderers(run_document: RunDocument) -> dict[str, Callable[[], str | bytes]]:
    """Return the function that renders each format of one document."""
    from advisor.report import markdown, page
    from advisor.report.documents import document
    from advisor.report.exports import csv_rows, formats

    return {
        "html": lambda: page.render(run_document),
        "md": lambda: markdown.render(run_document),
        "csv": lambda: csv_rows.render([run_document]),
        "json": lambda: document.encode(run_document),
        "parquet": lambda: formats.encode(formats.to_parquet, run_document),
        "junit": lambda: formats.encode(formats.to_junit, run_document),
        "openmetrics": lambda: formats.encode(formats.to_openmetrics, run_document),
        "github-summary": lambda: markdown.render(run_document),
    }


def _write_reports(
    run_document: RunDocument,
    selected: Sequence[str],
    directory: str,
    renderers: Mapping[str, Callable[[], str | bytes]],
) -> None:
    """Write each format to a file of its own, and the summary of a GitHub workflow to its file."""
    from advisor.report.exports import tracking

    for name in selected:
        if name in TRACKERS:
            print_text(str(tracking.track(name, run_document, pathlib.Path(directory))))
            continue
        content = renderers[name]()
        if name == "github-summary":
            _append_summary(str(content))
            continue
        file = pathlib.Path(directory) / f"{run_document.run_id}{FORMATS[name]}"
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


@app.command()
def recipe(
    run: RunName = "latest",
    *,
    workflow: Annotated[
        str, typer.Option(help="a workflow or arm; default: the recommended one")
    ] = "",
    style: Annotated[
        str,
        typer.Option(
            help="snippet: load, compile and call in a few lines; check: a script that also checks"
            " the outputs and the measured throughput; server: a server for the model, or the"
            " command of an engine's own; dockerfile: an image of the server in server.py"
        ),
    ] = "snippet",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Write code that runs a workflow as it was measured."""
    from advisor.report.recipes import recipe as recipes
    from advisor.report.recipes import server_recipe

    probes = make_context().probes
    styles: dict[str, Callable[..., str]] = {
        "snippet": recipes.render_snippet,
        "check": recipes.render,
        "server": functools.partial(server_recipe.render_server, probes=probes),
        "dockerfile": server_recipe.render_dockerfile,
    }
    if style not in styles:
        raise FormatError(f"unknown style {style!r}", f"use one of {', '.join(styles)}")
    decision, run_document = _decide(open_store().find(run))
    entry, found_recipe = recipes.choose(run_document, decision, workflow, probes)
    name = pathlib.Path(output).name
    if recipes.shadows_import(name, found_recipe.recipe):
        raise OutputFileError(
            f"a file named {name} would shadow the Python module of that name",
            "choose another name, such as recipe.py",
        )
    if run_document.imported:
        print_status("the run comes from another machine: read the script before you run it")
    if found_recipe.is_source_changed and style == "check":
        print_status(recipes.SOURCE_CHANGED)
    write_output(output, styles[style](run_document, entry, found_recipe))


@app.command()
def verify(
    run: RunName = "latest",
    *,
    workflow: Annotated[
        str, typer.Option(help="a workflow or arm; default: the recommended one")
    ] = "",
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
    from advisor.domain.worker_settings import thread_count
    from advisor.probing import rerun
    from advisor.probing.environments.variables import worker_environment
    from advisor.report.documents import document
    from advisor.report.recipes import recipe as recipes
    from advisor.report.recipes import verification

    share = parse_share(tolerance)
    decision, run_document = _decide(open_store().find(run))
    if run_document.imported:
        raise RunIsImportedError(
            f"run {run_document.run_id} comes from another machine, so its recipe is not executed",
            f"read the recipe first: p3-advisor recipe {run_document.run_id}",
        )
    probes = make_context().probes
    entry, found_recipe = recipes.choose(run_document, decision, workflow, probes)
    if found_recipe.is_source_changed:
        print_status(recipes.SOURCE_CHANGED)
    question, machine = decision.header.question, decision.header.machine
    with tempfile.TemporaryDirectory() as scratch:
        variables = worker_environment(
            dict(os.environ), question, thread_count(machine), pathlib.Path(scratch)
        )
        timeout_seconds = (question.max_build_seconds + 10 * seconds) * len(question.batch_sizes)
        script, interpreter = (
            recipes.render(run_document, entry, found_recipe),
            found_recipe.recipe.interpreter,
        )
        results = rerun.run_recipe(script, interpreter, variables, seconds, timeout_seconds, probes)
    verified = verification.verify(run_document.run_id, entry, results, share)
    print_text(document.encode(verified) if json else verification.render(verified), nl=False)
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
            help="exit with code 1 when the speed-up of an arm fell by more than this, such as 5%",
        ),
    ] = "",
    fail_on_undecided: Annotated[
        bool,
        typer.Option(
            "--fail-on-undecided",
            help="exit with code 4 when the figures cannot exclude such a regression",
        ),
    ] = False,
    formats: Annotated[str, typer.Option("--format", "-f", help="text, md or json")] = "text",
    output: Output = STANDARD_OUTPUT,
) -> None:
    """Compare a run with an earlier one.

    With a --fail option the exit code is 0 without a regression, 1 with one, 2 for runs that are
    not comparable, 4 if undecided.
    """
    from advisor.report.comparisons import comparison_text
    from advisor.report.comparisons.comparison import compare_documents
    from advisor.report.documents import document

    renderers = {
        "text": comparison_text.render,
        "md": comparison_text.render_markdown,
        "json": document.encode,
    }
    if formats not in renderers:
        raise FormatError(f"unknown format {formats!r}", f"use one of {', '.join(renderers)}")
    threshold = parse_share(fail_on_regression or "5%")
    first, second = (open_document(name) for name in (before, after))
    comparison = compare_documents(first, second, threshold)
    write_output(output, renderers[formats](comparison))
    if fail_on_regression or fail_on_undecided:
        _exit_with_outcome(comparison, comparison_text.conclusion(comparison)[0], fail_on_undecided)


def _exit_with_outcome(comparison: Comparison, reason: str, fail_on_undecided: bool) -> None:  # noqa: FBT001
    """Exit with the code of the outcome; return for one that does not fail."""
    if comparison.outcome == "not-comparable":
        raise NotComparableError(reason, "compare runs of the same question on the same device")
    if comparison.outcome == "regression":
        raise typer.Exit(1)
    if comparison.outcome == "undecided" and fail_on_undecided:
        raise UndecidedError(
            "the intervals are too wide to exclude a regression",
            "measure both runs with --budget standard, on a machine that does nothing else",
        )


def parse_share(text: str) -> float:
    """Parse a share such as `5%` or `0.05`; raise `SizeError`."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise SizeError(f"{text!r} is not a share between 0 and 100 %", "write it as 5% or 0.05")
    return share


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


def _decide(run: Run, platforms: Sequence[Run] = ()) -> tuple[Decision, RunDocument]:
    from advisor.pipeline.decision import decide
    from advisor.report.documents import measured_document

    decision = decide(run, platforms=platforms)
    return decision, measured_document.compose(decision)
