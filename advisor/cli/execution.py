"""Execute a run with its progress on standard error until a signal ends it; print its answer."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import sys
import weakref
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import msgspec
import typer
from typing_extensions import Self

from advisor.cli.output import OutputFormat, make_context, print_document, print_status, print_text
from advisor.domain.errors import UserError

if TYPE_CHECKING:
    from advisor.domain.answer import Answer
    from advisor.store.runs import Run


def execute(run: Run, output_format: OutputFormat, wait_seconds: float | None = None) -> None:
    """Execute the rest of a run, print its progress, then its answer.

    After the JSON document the answer follows on standard error, for a reader at a terminal.
    """
    from advisor.execute.execution import drop_refused
    from advisor.execute.printed_code import name_untried
    from advisor.report.answer_files import decide
    from advisor.report.answer_lines import stop_notice

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
    answer = decide(run)
    if interruption is not None and answer.recommendation is None:
        if answer.results.measurements or output_format != "text":
            show_answer(answer, output_format)
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
    from advisor.execute.run_host import execute_controlled
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
    """Print an answer; exit with the code of its problem when it recommends nothing."""
    show_answer(answer, output_format, full=full)
    if answer.problem is not None:
        if output_format != "text":
            print_status(f"{answer.problem.what}; next: {answer.problem.next_step}")
        raise typer.Exit(answer.problem.exit_code)


def show_answer(answer: Answer, output_format: OutputFormat, *, full: bool = False) -> None:
    from advisor.report import text_report

    columns = shutil.get_terminal_size((text_report.WIDEST, 0)).columns
    short = functools.partial(text_report.summarise, width=columns)
    print_document(answer, output_format, text_report.render if full else short)


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Long enough to leave the code that dropped the exception.
RETRY_SECONDS = 0.05


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


class Interruptions:
    """Turns the first ending signal within a block into `InterruptedRunError`.

    Later signals, and signals that were ignored when the program started, have no effect.
    """

    def __init__(self) -> None:
        self._is_over = False

    def __enter__(self) -> Self:
        for number in ENDING_SIGNALS:
            # A program started with a signal ignored, as `nohup` does, keeps ignoring it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        for later in ENDING_SIGNALS:
            signal.signal(later, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: self._raise(number))
        self._raise(number)

    def _raise(self, number: int) -> None:
        if not self._is_over:
            # No local variable may hold the exception: it must be collected when it is dropped.
            raise self._retried_when_dropped(InterruptedRunError(number))

    def _retried_when_dropped(self, problem: InterruptedRunError) -> InterruptedRunError:
        """Raise the exception again if it is collected before the block ends."""
        weakref.finalize(problem, self._set_timer).atexit = False
        return problem

    def _set_timer(self) -> None:
        if not self._is_over:
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
