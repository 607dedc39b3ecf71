"""Commands on stored runs."""

from __future__ import annotations

import pathlib
import shlex
from typing import Annotated

import msgspec
import typer

from advisor.ask.run_options import RunOptions
from advisor.cli.options import ArmName, AsJson, InFull, RunName, StoredRunName
from advisor.cli.output import (
    STANDARD_OUTPUT,
    choose_output_format,
    make_context,
    print_rows,
    print_status,
    print_text,
    write_output,
)
from advisor.cli.run_output import print_answer, show_answer
from advisor.domain.constraints import CRITERIA
from advisor.domain.errors import CommandLineError, ExportFileError, OptionValueError
from advisor.domain.text import write_count
from advisor.store.runs import HistoryEntry, RunStatus

app = typer.Typer(rich_markup_mode=None)


@app.command(rich_help_panel="Results")
def show(
    run: RunName = "latest",
    *,
    full: InFull = False,
    json: AsJson = False,
    times: Annotated[
        bool, typer.Option("--times", help="with --json: the seconds of every timed call, too")
    ] = False,
) -> None:
    """Show the results of a stored run."""
    output_format = choose_output_format(json=json)
    if times and not json:
        raise OptionValueError("only JSON has the single times", "add --json, or leave out --times")
    from advisor.report import answer_files

    context = make_context()
    if times and not answer_files.is_file(run):
        answer = answer_files.answer_of_run(context.store.find(run), with_times=True)
    else:
        answer = answer_files.open_answer(run, context)
    if change := answer_files.describe_change(run, answer):
        print_status(change)
    show_answer(answer, output_format, full=full)


@app.command(rich_help_panel="Results")
def decide(
    run: RunName = "latest",
    *,
    priority: Annotated[
        str, typer.Option(metavar="WEIGHTS", help="new weights, as in recommend")
    ] = "",
    preset: Annotated[str, typer.Option(metavar="NAME", help="new priorities, by name")] = "",
    require: Annotated[str, typer.Option(metavar="CONSTRAINTS", help="new constraints")] = "",
    rubric: Annotated[
        str, typer.Option(metavar="FILE", help="a file that replaces criteria.toml")
    ] = "",
    full: InFull = False,
    json: AsJson = False,
) -> None:
    """Score a stored run again. The options replace those of the run."""
    from advisor.ask.option_values import choose_priorities, parse_constraints
    from advisor.report import answer_files

    context = make_context()
    priorities = (
        choose_priorities(RunOptions(priority=priority, preset=preset), context.catalogue())
        if priority or preset
        else None
    )
    output_format = choose_output_format(json=json)
    answer = answer_files.open_answer(
        run,
        context,
        priorities=priorities,
        constraints=parse_constraints(require) if require else None,
        rubric=pathlib.Path(rubric) if rubric else None,
    )
    name = run if answer_files.is_file(run) else answer.run_id
    given = {"priority": priority, "preset": preset, "require": require, "rubric": rubric}
    options = [word for key, value in given.items() if value for word in (f"--{key}", value)]
    command = shlex.join(["p3-advisor", "decide", name, *options, "--json"])
    answer = msgspec.structs.replace(answer, rerun_command=command)
    print_answer(answer, output_format, full=full)


@app.command(rich_help_panel="Results")
def explain(
    run: RunName = "latest",
    arm: ArmName = "",
    criterion: Annotated[
        str, typer.Argument(help=f"one of {', '.join(CRITERIA)}; default: all of them")
    ] = "",
) -> None:
    """Explain the score of a workflow: each figure, its rule and its source."""
    from advisor.report import answer_files, explanation

    answer, catalogue, _ = answer_files.open_with_catalogue(run, make_context())
    print_text(explanation.render(answer, arm, criterion, catalogue.by_id), nl=False)


@app.command(rich_help_panel="Stored runs")
def history(*, json: AsJson = False) -> None:
    """List the stored runs with their answers, newest first."""
    from advisor.report.answer_files import read_summary
    from advisor.report.formatting import plain_table

    store = make_context().store
    entries = [
        msgspec.structs.replace(each, answer=read_summary(store, each) if each.finished else None)
        for each in store.history()
    ]
    if unreadable := store.unreadable_ids():
        print_status(
            f"{write_count(len(unreadable), 'stored run')} cannot be read: "
            f"{', '.join(unreadable)}; p3-advisor show RUN gives the reason"
        )

    def render() -> list[str]:
        rows = [["run", "created", "model", "device", "state", "answer", "decision", "note"]]
        for entry in entries:
            state = _describe_state(entry, store.state_of(entry))
            created = f"{entry.created.astimezone():%Y-%m-%d %H:%M}"
            question = [entry.run_id, created, entry.model, entry.device_name]
            answer, word = "", ""
            if entry.answer is not None:
                answer, word = entry.answer.label, entry.answer.decision_word or ""
            rows.append([*question, state, answer, word, entry.note])
        if entries or unreadable:
            return plain_table(rows)
        return ["No runs yet. p3-advisor recommend measures one."]

    print_rows(entries, render, json=json)


def _describe_state(entry: HistoryEntry, state: RunStatus) -> str:
    facts = (
        state if state != "imported" else "finished" if entry.finished else "stopped",
        entry.shortcoming(state),
        "imported" if entry.foreign else "",
    )
    return ", ".join(filter(None, facts))


@app.command("export-run", rich_help_panel="Stored runs")
def export_run(
    run: StoredRunName = "latest",
    *,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="default: the run's id with .p3run"),
    ] = "",
) -> None:
    """Write a run to one file, without the directories of interpreters and of the model."""
    from advisor.store import export_file

    stored_run = make_context().store.find(run)
    content = export_file.encode_run(stored_run)
    file = output or f"{stored_run.directory.name}{export_file.SUFFIX}"
    write_output(file, content)
    if file != STANDARD_OUTPUT:
        print_text(file)


@app.command("import-run", rich_help_panel="Stored runs")
def import_run(
    files: Annotated[list[str], typer.Argument(help="files that export-run wrote")],
) -> None:
    """Import runs from other machines. Nothing in them is executed."""
    from advisor.decide.answers import answer_from_stored
    from advisor.domain.event_folding import fold
    from advisor.report import answer_files
    from advisor.store import export_file

    store = make_context().store
    for file in files:
        if answer_files.is_file(file):
            answer = answer_files.read_answer(file)
            raise ExportFileError(
                f"{file} is the answer of run {answer.run_id}, without its single times",
                f"it needs no import: p3-advisor show {shlex.quote(file)}; recipe, decide, "
                "explain, report and compare take the file too",
            )
        header, events = export_file.read_export(pathlib.Path(file))
        answer_from_stored(
            header, fold(events), file, "ask the sender for another export of the run"
        )
        run = export_file.import_run(store, header, events)
        print_text(f"{run.directory.name}  {header.question.model.name}")


@app.command(rich_help_panel="Stored runs")
def note(
    run: StoredRunName,
    text: Annotated[str, typer.Argument(help="the note, one line; an empty one removes it")],
) -> None:
    """Add a note to a run. The history shows it."""
    make_context().store.find(run).write_note(text)


@app.command(rich_help_panel="Stored runs")
def delete(
    runs: Annotated[list[str], typer.Argument(help="ids of runs, or unique beginnings")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Delete stored runs permanently; ask before."""
    store = make_context().store
    names = ", ".join(store.find(run).directory.name for run in runs)
    try:
        if not (yes or typer.confirm(f"Delete {names} (--yes does not ask)?", err=True)):
            raise typer.Exit(1)
    except typer.Abort as problem:
        print_text(err=True)  # ends the line of the question
        raise CommandLineError(
            f"{names} not deleted: the input ended without an answer", "confirm with --yes"
        ) from problem
    for run in runs:
        print_text(store.delete(run))
