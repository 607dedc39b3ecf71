"""Execute a run with its progress on standard error, and print its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import msgspec
import typer

from advisor.cli.interruption import InterruptedRunError, resumable_with
from advisor.cli.output import OutputFormat, make_context, print_document, print_status, print_text
from advisor.errors import exit_code_of

if TYPE_CHECKING:
    from advisor.domain.answer import Answer, Problem
    from advisor.store.runs import Run


def execute(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run, print its progress, then its answer.

    After the JSON document the answer follows on standard error, for a reader at a terminal.
    """
    from advisor.decide.decision import decide

    resume = f"p3-advisor resume {run.directory.name}"
    interruption: InterruptedRunError | None = None
    try:
        with resumable_with(resume):
            follow(run, output_format, wait_seconds)
    except InterruptedRunError as problem:
        interruption = problem
    answer = decide(run)
    if interruption is not None and answer.recommendation is None:
        raise interruption
    print_answer(answer, output_format)
    if answer.recommendation is not None and output_format != "text":
        for line in answer.headline:
            print_status(line.text)
        print_status(f"p3-advisor show {run.directory.name} prints the table")
    if interruption is not None:
        waiting = [each.arm for each in answer.unmeasured if each.option is not None]
        print_status(
            "stopped before the end of the run"
            + (f"; not measured: {', '.join(waiting)}" if waiting else "")
            + f"; it goes on with: {resume}"
        )


def follow(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run and print its progress, and its events as lines of JSON."""
    from advisor.cli.run_host import execute_controlled
    from advisor.report import progress_lines

    if output_format == "json-lines":
        print_beginning(run)
    for event in execute_controlled(run, make_context(), wait_seconds):
        if output_format == "json-lines":
            print_text(msgspec.json.encode(event))
            sys.stdout.flush()
        line = progress_lines.render_event(event)
        if line is not None:
            print_status(line)


def print_beginning(run: Run) -> None:
    """Print a line with the run and its question, then the events that are stored already."""
    header = run.header()
    beginning = {
        "run_id": header.run_id,
        "created": header.created,
        "advisor_version": header.advisor_version,
        "question": header.question,
    }
    for line in (beginning, *run.events()):
        print_text(msgspec.json.encode(line))
    sys.stdout.flush()


def print_answer(answer: Answer, output_format: OutputFormat) -> None:
    """Print an answer; exit with the code of its problem when it recommends nothing."""
    from advisor.report import text_report

    print_document(answer, output_format, text_report.render)
    if answer.problem is not None:
        exit_with_problem(answer.problem)


def exit_with_problem(problem: Problem) -> NoReturn:
    """Print why there is no recommendation, and exit with the code of the error."""
    print_status(f"{problem.what}; next: {problem.next_step}")
    raise typer.Exit(exit_code_of(problem.name))
