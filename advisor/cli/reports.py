"""Commands that write reports and code of stored runs, compare runs, and run the code again."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import options
from advisor.cli.output import (
    STANDARD_OUTPUT,
    choose_output_format,
    known_name,
    make_context,
    print_document,
    print_rows,
    print_status,
    print_text,
    table_width,
    write_output,
)
from advisor.domain.errors import CommandLineError, NoRecipeError, OptionValueError, OutputFileError

if TYPE_CHECKING:
    from advisor.decide.comparison import Comparison

app = typer.Typer(rich_markup_mode=None)

UNCOMPARED_CODE, UNDECIDED_CODE = 2, 4
#: What to do next after a comparison without a verdict.
NO_VERDICT = {
    "not-comparable": "measure one of the runs again so that these are equal",
    "undecided": "measure both with --budget gate, on an idle machine",
    "same-run": "name two runs: p3-advisor history lists them",
}


@app.command(rich_help_panel="Results")
def report(
    runs: Annotated[
        list[str] | None, typer.Argument(help="a run, or one run for each device; default: latest")
    ] = None,
    *,
    formats: Annotated[
        str,
        typer.Option("--format", "--to", "-f", metavar="FORMATS", help="html,md,csv,json,parquet"),
    ] = "html",
    directory: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where the files go; - prints")
    ] = ".",
) -> None:
    """Write a report of one run, or of runs on several devices."""
    from advisor.report import answer_files

    selected = parse_formats(formats)
    names = [options.tell_latest(name) for name in runs or ["latest"]]
    context = make_context()
    if len(names) > 1 and any(map(answer_files.is_file, names)):
        raise CommandLineError(
            "a report of several devices needs stored runs, and a file has one answer",
            "name one file, or import the runs with p3-advisor import-run",
        )
    if answer_files.is_file(names[0]):
        answer, run, elsewhere = answer_files.open_answer(names[0], context), None, []
    else:
        run, *elsewhere = [context.store.find(name) for name in names]
        answer = answer_files.answer_of_run(run, platforms=elsewhere)
    others = [answer_files.answer_of_run(other) for other in elsewhere] if "csv" in selected else []
    for name in selected:
        content = answer_files.write(name, answer, run, others)
        if directory == STANDARD_OUTPUT:
            write_output(directory, content)
            continue
        file = pathlib.Path(directory) / f"{answer.run_id}.{name}"
        write_output(str(file), content)
        print_text(str(file))


def parse_formats(text: str) -> list[str]:
    from advisor.report.answer_files import REPORT_FORMATS

    names = [part.strip().lower() for part in text.split(",") if part.strip()] or [text]
    return list(dict.fromkeys(known_name("format", name, REPORT_FORMATS) for name in names))


@app.command(rich_help_panel="Results")
def compare(
    before: options.RunName,
    after: options.RunName,
    *,
    fail_on_regression: Annotated[
        str,
        typer.Option(metavar="SHARE", help="exit code 1 if a speed-up fell by more than this: 5%"),
    ] = "",
    fail_on_undecided: Annotated[
        bool, typer.Option("--fail-on-undecided", help="exit code 4 if that cannot be excluded")
    ] = False,
    formats: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="text, md or json; default: text"),
    ] = "",
    json: options.AsJson = False,
    output: options.Output = STANDARD_OUTPUT,
) -> None:
    """Compare a run with an earlier one.

    The exit code is 2 for runs that are not comparable. With a --fail option it is 1 with a
    regression, and with --fail-on-undecided 4 if undecided or if both are the same run.
    """
    from advisor.ask.option_values import parse_share
    from advisor.decide.comparison import compare_answers
    from advisor.domain.answer import encode
    from advisor.report import answer_files, comparison_text

    def render_text(comparison: Comparison) -> str:
        return comparison_text.render(comparison, first, second, table_width(output))

    renderers = {"text": render_text, "md": comparison_text.render_markdown, "json": encode}
    chosen = known_name("format", formats or choose_output_format(json=json), renderers)
    if json and chosen != "json":
        raise OptionValueError(
            f"--json and --format {chosen} ask for different formats", "leave out one of them"
        )
    threshold = parse_share("--fail-on-regression", fail_on_regression or "5%")
    context = make_context()
    first, second = (answer_files.open_answer(name, context) for name in (before, after))
    comparison = compare_answers(first, second, threshold, context.catalogue().presets.noise)
    write_output(output, renderers[chosen](comparison))
    if comparison.conclusion == "regression" and (fail_on_regression or fail_on_undecided):
        raise typer.Exit(1)
    if comparison.conclusion in NO_VERDICT and (fail_on_undecided or not comparison.comparable):
        reason, *_ = comparison_text.conclusion_lines(comparison)
        print_status(f"{comparison.conclusion}: {reason}")
        print_text(f"  next: {NO_VERDICT[comparison.conclusion]}", err=True)
        raise typer.Exit(UNDECIDED_CODE if comparison.comparable else UNCOMPARED_CODE)


@app.command(rich_help_panel="Code")
def recipe(
    run: options.RunName = "latest",
    arm: options.ArmName = "",
    *,
    batch_size: options.BatchSize = None,
    style: Annotated[
        str,
        typer.Option(
            metavar="STYLE",
            help="snippet: load, compile and call in a few lines, or the server that was under"
            " load; server: the command of the engine's server, or a server for a module;"
            " start: a new process that begins"
            " with a kept file, the fastest way after --cold-start; write: what writes that file",
        ),
    ] = "snippet",
    output: options.Output = STANDARD_OUTPUT,
) -> None:
    """Write code that runs a workflow as it was measured; of a file, the lines that adopt it.

    It overwrites no file.
    """
    from advisor.report import answer_files, recipe_text

    styles = {
        "snippet": recipe_text.render_short,
        "server": recipe_text.render_server,
        "start": recipe_text.render_start,
        "write": recipe_text.render_write,
    }
    known_name("style", style, styles)
    if answer_files.is_file(run) and style != "snippet":
        raise NoRecipeError(
            f"{run} has the lines that adopt a workflow, and --style {style} needs its run",
            "leave out --style, or import the run with p3-advisor import-run",
        )
    answer, _, stored = answer_files.open_with_catalogue(run, make_context())
    ranked, found = recipe_text.choose_recipe(answer, stored, arm, batch_size)
    text = styles[style](answer, ranked, found)
    if output != STANDARD_OUTPUT and pathlib.Path(output).is_file():
        raise OutputFileError(
            f"there is a file {output} already", "choose another name, or remove the file first"
        )
    name = pathlib.Path(output).name
    if recipe_text.shadows_import(name, text, found):
        raise OutputFileError(
            f"a file named {name} would shadow the Python module of that name",
            "choose another name, such as recipe.py",
        )
    if answer.foreign:
        print_status("it comes from a file or another store: read the code before you run it")
    elif answer.question.sandbox:
        print_status("the model was in a sandbox and may have written this: read it before you run")
    write_output(output, text)


@app.command(rich_help_panel="Code")
def verify(
    run: options.StoredRunName = "latest",
    arm: options.ArmName = "",
    *,
    batch_size: options.BatchSize = None,
    seconds: Annotated[
        float, typer.Option(help="seconds of timing of each snippet", min=0.1, max=600)
    ] = 3.0,
    tolerance: Annotated[
        str, typer.Option(metavar="SHARE", help="tolerance beyond the measured interval")
    ] = "5%",
    json: options.AsJson = False,
) -> None:
    """Run a recipe and check its outputs and its speed-up. Exit code 1 if one is not as measured.

    Exit code 4 if the times do not decide, because they vary or the machine is busy.

    The snippet runs as it is pasted, next to that of the baseline, in the interpreter that measured
    it. Folders that it names, such as a clone of llama.cpp, are looked for in the current one.
    """
    from advisor.ask.option_values import parse_share
    from advisor.execute import execution, verification
    from advisor.report.answer_files import answer_of_run
    from advisor.report.recipe_text import choose_recipe
    from advisor.report.snippet_results import render_verification

    context = make_context()
    stored = context.store.find(run)
    execution.refuse_foreign(stored.header())
    answer = answer_of_run(stored)
    ranked, _ = choose_recipe(answer, stored, arm, batch_size)
    found = verification.verify(
        answer,
        stored,
        ranked,
        tolerance=parse_share("--tolerance", tolerance),
        seconds=seconds,
        context=context,
        tell=print_status,
    )
    print_document(found, choose_output_format(json=json), render_verification)
    if not found.holds:
        raise typer.Exit(UNDECIDED_CODE if found.result == "undecided" else 1)


@app.command(rich_help_panel="Code")
def improve(
    run: options.StoredRunName = "latest",
    *,
    seconds: Annotated[
        float, typer.Option(help="seconds of timing of each code", min=0.1, max=600)
    ] = 3.0,
    json: options.AsJson = False,
) -> None:
    """Try the code of a run in lower precisions, and with settings against graph breaks.

    Code in float32 is tried in TF32 and bfloat16, where the device has instructions for them, next
    to eager PyTorch in float32. Settings are printed if they are faster and the outputs as before.
    The results are stored in the run, without a rank.
    """
    from advisor.execute import improvement
    from advisor.report.answer_files import answer_of_run
    from advisor.report.snippet_results import render_breaks, render_tried

    context = make_context()
    stored = context.store.find(run)
    answer = answer_of_run(stored)
    found = improvement.improve(answer, stored, seconds=seconds, context=context, tell=print_status)
    if json:
        print_rows(list(found), list, json=True)
        return
    arm, causes = improvement.find_breaks(answer)
    if causes:
        print_text(render_breaks(answer.titles[arm], causes))
    for each in found:
        print_text(render_tried(each, answer))
