"""Commands that measure: `recommend`, `resume`, `upgrade`, and `ask`, which starts the screens.

`runner` executes a run for the screens.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from advisor.ask.run_options import RunOptions
from advisor.cli.interruption import resumable_with
from advisor.cli.options import AsJson, GroupedCommand, StoredRunName, takes_run_options
from advisor.cli.output import (
    choose_output_format,
    make_context,
    print_document,
    print_status,
    print_text,
    table_width,
)
from advisor.cli.run_output import execute, follow, print_answer
from advisor.domain.errors import CommandLineError
from advisor.domain.model import FactoryModel
from advisor.domain.run_state import Header
from advisor.store.store import LATEST

AsEvents = Annotated[
    bool,
    typer.Option("--jsonl", help="JSON lines: the run's id and question, each event, the document"),
]

#: Larger changes of the speed are reported.
LARGEST_CHANGE = 0.05

app = typer.Typer(rich_markup_mode=None)


def is_terminal(environment: Mapping[str, str]) -> bool:
    """Return whether the standard streams are an interactive terminal with cursor control."""
    has_cursor = environment.get("TERM", "") not in {"", "dumb"} and environment.get(
        "CI", ""
    ).lower() not in {"1", "true"}
    return has_cursor and all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


@app.command(cls=GroupedCommand, rich_help_panel="Measure")
@takes_run_options
def ask(
    run_options: RunOptions,
    *,
    open_: Annotated[
        str, typer.Option("--open", metavar="RUN", help="open a stored run, or a file of --json")
    ] = "",
    theme: Annotated[
        str, typer.Option(metavar="NAME", help="colours, such as p3-high-contrast or textual-light")
    ] = "",
    no_color: Annotated[
        bool, typer.Option("--no-color", help="no colours, as with NO_COLOR")
    ] = False,
    no_mouse: Annotated[bool, typer.Option("--no-mouse", help="do not capture the mouse")] = False,
) -> None:
    """Start the terminal program. It asks for the options and shows the run and its results."""
    if not is_terminal(os.environ):
        raise CommandLineError(
            "ask needs a terminal, and the standard streams are not one", "use --json or recommend"
        )
    from advisor.tui import launch

    options = launch.LaunchOptions(
        run_options=run_options, open=open_, theme=theme, no_color=no_color, no_mouse=no_mouse
    )
    code, exit_message = launch.run_app(options, make_context())
    if exit_message:
        print_text(exit_message)
    raise typer.Exit(code)


@app.command(cls=GroupedCommand, rich_help_panel="Measure")
@takes_run_options
def recommend(run_options: RunOptions, *, json: AsJson = False, jsonl: AsEvents = False) -> None:
    """Measure and score the workflows, and recommend one."""
    from advisor.domain.answer import Answer
    from advisor.execute.drafts import create, draft_or_answer

    output_format = choose_output_format(json=json, jsonl=jsonl)
    context = make_context()
    draft = draft_or_answer(run_options, context)
    if isinstance(draft, Answer):
        print_answer(draft, output_format)
        return
    run = create(draft, context)
    print_status(f"run {run.directory.name}, stored in {run.directory}")
    if notice := task_notice(run_options, run.header()):
        print_status(notice)
    (size, *_), model = run.header().question.batch_sizes, run.header().question.model
    if isinstance(model, FactoryModel) and not run_options.batch_sizes and size > 1:
        print_status(f"batch size {size}, that of the example inputs; --batch-sizes names others")
    if run_options.sandbox and os.geteuid() == 0:
        print_status("a model in the sandbox of root can change the mode of all files: use a user")
    execute(run, output_format)


def task_notice(run_options: RunOptions, header: Header) -> str | None:
    """Return a line on a task that was chosen for a language model; None if the user chose it."""
    from advisor.ask.task import suggest_task

    if run_options.task != "auto":
        return None
    if header.question.task == "generate":
        return "the model generates text, so text generation is measured (--task forward: one pass)"
    if suggest_task(run_options.model, header.catalogue.models) == "generate":
        return "the named workflows do not generate text, so one pass over the inputs is measured"
    return None


@app.command(rich_help_panel="Measure")
def resume(
    run: Annotated[str, typer.Argument(help="a run's id; default: the newest that can go on")] = "",
    *,
    wait_for_quiet: Annotated[
        str, typer.Option(metavar="DURATION", help="wait until the machine is quiet: 5min")
    ] = "",
    json: AsJson = False,
    jsonl: AsEvents = False,
) -> None:
    """Resume an interrupted run, or measure the leaders of one without a clear answer again."""
    from advisor.ask.option_values import parse_duration

    output_format = choose_output_format(json=json, jsonl=jsonl)
    store = make_context().store
    seconds = parse_duration("--wait-for-quiet", wait_for_quiet) if wait_for_quiet else None
    from advisor.execute.execution import newest_resumable

    is_named = run not in {"", LATEST}
    chosen = store.find(run) if is_named else newest_resumable(store)
    if not is_named and (readable := store.history()):
        newest, name = readable[0], chosen.directory.name
        problem = "cannot go on" if newest.measured else "has no measurement"
        problem = "has finished" if newest.finished else problem
        why = "" if name == newest.run_id else f": the newest, {newest.run_id}, {problem}"
        print_status(f"resuming run {name}{why}")
    execute(chosen, output_format, seconds)


@app.command(rich_help_panel="Measure")
def upgrade(
    run: StoredRunName = "latest",
    *,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="the interpreter that has the other versions")
    ],
    json: AsJson = False,
) -> None:
    """Measure a run again with other versions, such as another PyTorch, and compare.

    The comparison has the speed, the outputs, the build and the memory of each arm that the run has
    measured. Arms with environments of their own are left out: these do not change.
    """
    from advisor.decide.comparison import compare_answers
    from advisor.execute import drafts
    from advisor.report import comparison_text
    from advisor.report.answer_files import answer_of_run

    context = make_context()
    stored = context.store.find(run)
    before = answer_of_run(stored)
    arms = tuple(
        str(each.name)
        for each in stored.state().plan.arms
        if each.id in before.results.by_arm and not (each.python or each.duplicate_of)
    )
    draft = drafts.draft_again(stored.header(), arms, context, python=python)
    again = drafts.create(draft, context)
    print_status(f"run {again.directory.name}, with {draft.question.python}")
    with resumable_with(f"p3-advisor resume {again.directory.name}"):
        follow(again, "text")
    after, noise = answer_of_run(again), again.header().catalogue.presets.noise
    comparison = compare_answers(before, after, LARGEST_CHANGE, noise)
    render = functools.partial(
        comparison_text.render, before=before, after=after, width=table_width()
    )
    print_document(comparison, choose_output_format(json=json), render)


@app.command(hidden=True)
def runner(run: str, wait_seconds: float | None = None) -> None:
    """Execute a run for screens in another process."""
    from advisor.execute.runner import execute_for_screens

    context = make_context()
    execute_for_screens(context.store.find(run), context, sys.stdin, wait_seconds)
