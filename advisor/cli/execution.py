"""Execute a run with its progress on standard error, and print its decision."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec
import typer

from advisor.cli.context import make_context, print_status
from advisor.cli.interruption import resumable_with
from advisor.cli.output import print_text
from advisor.errors import exit_code_of

if TYPE_CHECKING:
    from advisor.pipeline.decision import Decision
    from advisor.report.documents.document import RunDocument
    from advisor.store.runs import Run


def execute(run: Run, *, as_json: bool, as_events: bool) -> None:
    """Execute the rest of a run, print its progress, then its decision.

    After the JSON document the answer follows on standard error, for a reader at a terminal.
    """
    from advisor.pipeline.decision import decide

    with resumable_with(f"p3-advisor resume {run.directory.name}"):
        follow(run, as_events=as_events)
    decision = decide(run)
    print_decision(decision, as_json=as_json, as_events=as_events)
    if decision.recommendation is not None and (as_json or as_events):
        for line in decision.recommendation.headline:
            print_status(line)
        print_status(f"p3-advisor show {run.directory.name} prints the table")


def follow(run: Run, *, as_events: bool) -> None:
    """Execute the rest of a run and print its progress, and its events as lines of JSON."""
    from advisor.cli.run_host import execute_controlled
    from advisor.report.sections import progress_lines

    if as_events:
        print_beginning(run)
    for event in execute_controlled(run, make_context()):
        if as_events:
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


def print_decision(
    decision: Decision, *, as_json: bool, as_events: bool = False, with_times: bool = False
) -> None:
    """Print a decision; exit with the code of its problem when it recommends nothing."""
    from advisor.report.documents import measured_document

    composed = measured_document.compose(decision, with_times=with_times)
    print_document(composed, as_json=as_json, as_events=as_events)
    if decision.problem is not None:
        print_status(f"{decision.problem.what}; next: {decision.problem.next_step}")
        raise typer.Exit(decision.problem.exit_code)


def print_decided_document(run_document: RunDocument, *, as_json: bool) -> None:
    """Print a document that was decided again; exit with its problem's code if it has one."""
    print_document(run_document, as_json=as_json, as_events=False)
    if run_document.problem is not None:
        print_status(f"{run_document.problem.what}; next: {run_document.problem.next_step}")
        raise typer.Exit(exit_code_of(run_document.problem.name))


def print_document(run_document: RunDocument, *, as_json: bool, as_events: bool) -> None:
    """Print a document as one line after the events, as indented JSON or as text."""
    from advisor.report import text_report
    from advisor.report.documents import document

    if as_events:
        print_text(msgspec.json.encode({"document": run_document}))
    else:
        print_text(
            document.encode(run_document) if as_json else text_report.render(run_document), nl=False
        )
