"""Execute a run with its progress on standard error until a signal ends it; print its answer."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import msgspec
import typer

from advisor.cli.output import OutputFormat, make_context, print_document, print_status, print_text
from advisor.errors import UserError

if TYPE_CHECKING:
    from advisor.domain.answer import Answer
    from advisor.store.runs import Run


def execute(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run, print its progress, then its answer.

    After the JSON document the answer follows on standard error, for a reader at a terminal.
    """
    from advisor.decide.decision import decide
    from advisor.execute.execution import drop_refused
    from advisor.execute.printed_code import name_untried
    from advisor.report.answer import stop_notice

    interruption: InterruptedRunError | None = None
    try:
        with resumable_with(f"p3-advisor resume {run.directory.name}"):
            follow(run, output_format, wait_seconds)
    except InterruptedRunError as problem:
        interruption = problem
    except UserError:
        drop_refused(run, make_context())
        raise
    answer = decide(run)
    if interruption is not None and answer.recommendation is None:
        if answer.results.measurements or output_format != "text":
            _print_document(answer, output_format)
        raise interruption
    print_answer(answer, output_format)
    if answer.recommendation is not None and output_format != "text":
        for line in (*(each.text for each in answer.headline), *stop_notice(answer)):
            print_status(line)
        print_status(f"p3-advisor show {run.directory.name} prints the table")
    if answer.recommendation is not None and (titles := name_untried(answer, run.state())):
        print_status(f"p3-advisor improve {run.directory.name} tries the code with {titles}")


def follow(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run and print its progress, and its events as lines of JSON."""
    from advisor.cli.run_host import execute_controlled
    from advisor.report import progress_lines

    context, event = make_context(), None
    if others := progress_lines.describe_other_runs(context.store.active_ids(run)):
        print_status(others)
    if output_format == "json-lines":
        print_beginning(run)
    if not run.is_active():
        run.control.clear()
    for event in execute_controlled(run, context, wait_seconds):
        if output_format == "json-lines":
            print_text(msgspec.json.encode(event))
            sys.stdout.flush()
        line = progress_lines.render_event(event)
        if line is not None:
            print_status(line)
    if event is None:
        print_status("the run has finished and its answer is decided: nothing is measured again")


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


def print_answer(answer: Answer, output_format: OutputFormat, *, full: bool = False) -> None:
    """Print an answer, in a few lines unless it is `full`.

    Exit with the code of its problem when it recommends nothing.
    """
    _print_document(answer, output_format, full=full)
    if answer.problem is not None:
        print_status(f"{answer.problem.what}; next: {answer.problem.next_step}")
        raise typer.Exit(answer.problem.exit_code)


def _print_document(answer: Answer, output_format: OutputFormat, *, full: bool = False) -> None:
    from advisor.report import text_report

    columns = shutil.get_terminal_size((text_report.WIDEST, 0)).columns
    short = functools.partial(text_report.summarise, width=columns)
    print_document(answer, output_format, text_report.render if full else short)


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedRunError(BaseException):
    """A signal asked the program to end; raised in the main thread so that workers are ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        #: The command that resumes the work; empty when there is nothing to resume.
        self.resume_command = ""


@contextlib.contextmanager
def resumable_with(command: str) -> Iterator[None]:
    """Add the command that resumes the work to an interruption of the block."""
    try:
        yield
    except InterruptedRunError as interruption:
        interruption.resume_command = command
        raise


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn each ending signal within a block into `InterruptedRunError`.

    A further one ends what the first one has begun, such as waiting for workers. Signals after the
    block, and those that were ignored when the program started, have no effect.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise InterruptedRunError(number)

    # A program started with a signal ignored, as `nohup` does, keeps ignoring it.
    heeded = [each for each in ENDING_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_IGN)
