"""Sweeps over lengths: measure one, continue it, show it and write its reports."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from advisor.cli.context import make_context, open_store, print_status
from advisor.cli.execution import exit_with_problem, follow
from advisor.cli.interruption import resumable_with
from advisor.cli.output import OutputFormat, print_document, print_text, write_output
from advisor.errors import FormatError, UserError

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.constraints import Constraint
    from advisor.domain.priorities import Priorities
    from advisor.domain.sweep import MixedLengths, SweepRecord
    from advisor.pipeline.sweeps.runs import NextRun
    from advisor.question.answers import Answers
    from advisor.report.sweeps.sweep_document import SweepDocument

#: Formats of a sweep's report, and how the name of its file ends.
FORMATS = {"html": ".html", "md": ".md", "json": ".json"}


def recommend(answers: Answers, mix: Sequence[MixedLengths], output_format: OutputFormat) -> None:
    """Measure a new sweep and print its document."""
    from advisor.pipeline.sweeps import runs

    context = make_context()
    record = runs.new_record(answers, mix, context)
    _measure(record, context, output_format)


def resume(name: str, output_format: OutputFormat) -> None:
    """Measure the lengths of a stored sweep that have no finished run, and print its document."""
    context = make_context()
    record = context.store.sweeps.find(name)
    _measure(record, context, output_format)


def show(
    name: str,
    output_format: OutputFormat,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> None:
    """Print the document of a stored sweep, decided again with what replaces the runs' own."""
    from advisor.pipeline.sweeps.decision import decide_lengths
    from advisor.report.sweeps.sweep_document import decide_and_compose

    store = open_store()
    record = store.sweeps.find(name)
    decisions = decide_lengths(
        record, store, priorities=priorities, constraints=constraints, rubric=rubric
    )
    _print_document(decide_and_compose(record, decisions, store, rubric), output_format)


def report(name: str, formats: Sequence[str], directory: str) -> None:
    """Write the reports of a stored sweep, one file for each format; raise `FormatError`."""
    from advisor.domain.answer import encode
    from advisor.pipeline.sweeps.decision import decide_lengths
    from advisor.report.sweeps import sweep_page, sweep_text
    from advisor.report.sweeps.sweep_document import decide_and_compose

    unknown = [each for each in formats if each not in FORMATS]
    if unknown:
        raise FormatError(
            f"a sweep has no report in the format {unknown[0]!r}",
            f"use one or more of {', '.join(FORMATS)}, or report one of its runs",
        )
    renderers: dict[str, Callable[[SweepDocument], str]] = {
        "html": sweep_page.render,
        "md": sweep_text.render_markdown,
        "json": encode,
    }
    store = open_store()
    record = store.sweeps.find(name)
    composed = decide_and_compose(record, decide_lengths(record, store), store)
    for each in formats:
        file = pathlib.Path(directory) / f"{composed.sweep_id}{FORMATS[each]}"
        write_output(str(file), renderers[each](composed))
        print_text(str(file))


def _measure(record: SweepRecord, context: Context, output_format: OutputFormat) -> None:
    """Measure the lengths without a finished run, one after the other, and print the document."""
    from advisor.pipeline.sweeps import runs
    from advisor.pipeline.sweeps.decision import decide_lengths
    from advisor.report.sweeps.sweep_document import decide_and_compose

    decisions = decide_lengths(record, context.store)
    with _resumable(record):
        for found in runs.runs_left(record, decisions, context):
            record = found.record
            _print_start(found, len(decisions) + 1)
            follow(found.run, output_format)
    _print_document(decide_and_compose(record, decisions, context.store), output_format)


@contextlib.contextmanager
def _resumable(record: SweepRecord) -> Iterator[None]:
    """Name the command that continues the sweep when a signal or a user error ends it."""
    command = f"p3-advisor resume {record.sweep_id}"
    try:
        with resumable_with(command):
            yield
    except UserError:
        if record.sweep_id in make_context().store.sweeps.ids():
            print_status(f"the lengths measured so far are kept, continue with: {command}")
        raise


def _print_start(found: NextRun, number: int) -> None:
    from advisor.report.formatting.phrases import describe_lengths

    run, lengths, record, step = found
    task = run.header().question.task
    name = run.directory.name
    if step is None:
        print_status(f"{describe_lengths(lengths, task)}: resume run {name}")
        return
    if number == 1:
        print_status(f"sweep {record.sweep_id}: {len(record.mix)} lengths, one run for each")
    seconds = run.header().question.budget.measuring_seconds
    limit = ""
    if step.limited_to:
        neighbours = " and ".join(describe_lengths(each, task) for each in step.between)
        limit = f"; only {', '.join(step.limited_to)}: {neighbours} have the same clear answer"
    print_status(
        f"length {number} of {len(record.mix)}: {describe_lengths(lengths, task)}, "
        f"{seconds:.0f} s of measuring, run {name}{limit}"
    )


def _print_document(document: SweepDocument, output_format: OutputFormat) -> None:
    """Print the document; exit with the code of its problem when it recommends nothing."""
    from advisor.report.sweeps import sweep_text

    print_document(document, output_format, sweep_text.render)
    if document.problem is not None:
        exit_with_problem(document.problem)
