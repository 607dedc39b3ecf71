"""Execute a run with its progress on standard error, and print its answer."""

from __future__ import annotations

import functools
import shutil

import msgspec
import typer

from advisor.cli.interruption import InterruptedRunError, resumable_with
from advisor.cli.output import OutputFormat, make_context, print_document, print_status, print_text
from advisor.domain.answer import Answer
from advisor.domain.errors import UserError
from advisor.store.runs import Run


def execute(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run, print its progress, then its answer.

    After the JSON document the answer follows on standard error, for a reader at a terminal.
    """
    from advisor.execute.execution import drop_refused
    from advisor.execute.improvement import name_untried
    from advisor.report.answer_files import answer_of_run
    from advisor.report.answer_lines import stop_notice
    from advisor.report.headline import write_headline

    interruption: InterruptedRunError | None = None
    try:
        with resumable_with(f"p3-advisor resume {run.directory.name}"):
            follow(run, output_format, wait_seconds)
    except InterruptedRunError as problem:
        interruption = problem
    except UserError:
        if drop_refused(run, make_context()):
            print_status("the run is not kept: it would be refused again")
        raise
    answer = answer_of_run(run)
    if interruption is not None and answer.recommendation is None:
        if answer.results.measurements or output_format != "text":
            show_answer(answer, output_format)
        raise interruption
    print_answer(answer, output_format)
    if answer.recommendation is not None and output_format != "text":
        for line in (*(each.text for each in write_headline(answer)), *stop_notice(answer)):
            print_status(line)
        print_status(f"p3-advisor show {run.directory.name} prints the table")
    if answer.recommendation is not None and (titles := name_untried(answer, run.state())):
        print_status(f"p3-advisor improve {run.directory.name} tries the code with {titles}")


def follow(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run and print its progress, and its events as lines of JSON."""
    from advisor.execute.runner import execute_controlled
    from advisor.report import progress_lines

    context, event = make_context(), None
    if others := progress_lines.describe_other_runs(context.store.active_ids(run)):
        print_status(others)
    if output_format == "json-lines":
        header = run.header()
        beginning = {
            "run_id": header.run_id,
            "created": header.created,
            "advisor_version": header.advisor_version,
            "question": header.question,
            # Null without a limit, which JSON has no number for.
            "limit_seconds": header.question.seconds,
        }
        for stored in (beginning, *run.events()):
            print_text(msgspec.json.encode(stored))
    if not run.is_active():
        run.control.clear()
    for event in execute_controlled(run, context, wait_seconds):
        if output_format == "json-lines":
            print_text(msgspec.json.encode(event))
        line = progress_lines.render_event(event)
        if line is not None:
            print_status(f"{event.at:.0f} s: {line}")
    if event is None:
        print_status("the run has finished and its answer is decided: nothing is measured again")


def print_answer(answer: Answer, output_format: OutputFormat, *, full: bool = False) -> None:
    """Print an answer; exit with its code where nothing was decided."""
    show_answer(answer, output_format, full=full)
    if answer.problem is not None:
        if output_format != "text":
            print_status(f"{answer.problem.what}; next: {answer.problem.next_step}")
        raise typer.Exit(answer.problem.exit_code)


def show_answer(answer: Answer, output_format: OutputFormat, *, full: bool = False) -> None:
    from advisor.report import text_report
    from advisor.report.headline import AnswerDocument

    columns = shutil.get_terminal_size((text_report.WIDEST, 0)).columns
    short = functools.partial(text_report.render_summary, width=columns)
    print_document(AnswerDocument.of(answer), output_format, text_report.render if full else short)
