"""Sweeps over lengths: measure one, continue it, show it and write its reports."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import typer

from advisor.cli.context import make_context, open_store, print_status
from advisor.cli.execution import follow
from advisor.cli.interruption import resumable_with
from advisor.cli.output import print_text, write_output
from advisor.errors import FormatError, UserError, exit_code_of

if TYPE_CHECKING:
    from advisor.context import Context
    from advisor.domain.question import Constraint, Priorities
    from advisor.domain.sweep import Lengths, MixedLengths, SweepRecord
    from advisor.pipeline.decision import Decision
    from advisor.pipeline.sweeps.planning import Step
    from advisor.question.answers import Answers
    from advisor.report.sweeps.sweep_document import SweepDocument
    from advisor.store import Run

#: Formats of a sweep's report, and how the name of its file ends.
FORMATS = {"html": ".html", "md": ".md", "json": ".json"}


def recommend(
    answers: Answers, mix: Sequence[MixedLengths], *, as_json: bool, as_events: bool
) -> None:
    """Measure a new sweep and print its document."""
    from advisor.pipeline.sweeps import runs

    context = make_context()
    record = runs.new_record(answers, mix, context)
    _measure(record, context, as_json=as_json, as_events=as_events)


def resume(name: str, *, as_json: bool, as_events: bool) -> None:
    """Measure the lengths of a stored sweep that have no finished run, and print its document."""
    context = make_context()
    record = context.store.sweeps.find(name)
    _measure(record, context, as_json=as_json, as_events=as_events)


def show(
    name: str,
    *,
    as_json: bool,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> None:
    """Print the document of a stored sweep, decided again with what replaces the runs' own."""
    from advisor.pipeline.sweeps.decision import decide_lengths

    store = open_store()
    record = store.sweeps.find(name)
    decisions = decide_lengths(
        record, store, priorities=priorities, constraints=constraints, rubric=rubric
    )
    _print_document(_compose(record, decisions), as_json=as_json, as_events=False)


def report(name: str, formats: Sequence[str], directory: str) -> None:
    """Write the reports of a stored sweep, one file for each format; raise `FormatError`."""
    from advisor.pipeline.sweeps.decision import decide_lengths
    from advisor.report.documents import document
    from advisor.report.sweeps import sweep_page, sweep_text

    unknown = [each for each in formats if each not in FORMATS]
    if unknown:
        raise FormatError(
            f"a sweep has no report in the format {unknown[0]!r}",
            f"use one or more of {', '.join(FORMATS)}, or report one of its runs",
        )
    renderers: dict[str, Callable[[SweepDocument], str]] = {
        "html": sweep_page.render,
        "md": sweep_text.render_markdown,
        "json": document.encode,
    }
    store = open_store()
    record = store.sweeps.find(name)
    composed = _compose(record, decide_lengths(record, store))
    for each in formats:
        file = pathlib.Path(directory) / f"{composed.sweep_id}{FORMATS[each]}"
        write_output(str(file), renderers[each](composed))
        print_text(str(file))


def _measure(record: SweepRecord, context: Context, *, as_json: bool, as_events: bool) -> None:
    """Measure the lengths without a finished run, one after the other, and print the document."""
    from advisor.pipeline.decision import decide
    from advisor.pipeline.sweeps.decision import decide_lengths

    decisions = decide_lengths(record, context.store)
    with _resumable(record):
        while (found := _next_run(record, decisions, context)) is not None:
            run, lengths, record = found
            follow(run, as_events=as_events)
            decisions[lengths] = decide(run)
    _print_document(_compose(record, decisions), as_json=as_json, as_events=as_events)


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


def _next_run(
    record: SweepRecord, decisions: Mapping[Lengths, Decision], context: Context
) -> tuple[Run, Lengths, SweepRecord] | None:
    """Return the run to execute, its lengths and the record with it; None if all are decided."""
    from advisor.pipeline.sweeps import runs

    started = runs.find_unfinished(record, decisions, context.store)
    if started is not None:
        run = context.store.find(started.run_id)
        print_status(f"{_describe(started.lengths, run)}: resume run {started.run_id}")
        return run, started.lengths, record
    step = runs.next_step(record, decisions)
    if step is None:
        return None
    run, record = runs.start_run(record, step, decisions, context)
    _print_start(record, step, run, len(decisions) + 1)
    return run, step.lengths, record


def _print_start(record: SweepRecord, step: Step, run: Run, number: int) -> None:
    if number == 1:
        print_status(f"sweep {record.sweep_id}: {len(record.mix)} lengths, one run for each")
    seconds = run.header().question.budget.measuring_seconds
    limit = ""
    if step.limited_to:
        neighbours = " and ".join(_describe(each, run) for each in step.between)
        limit = f"; only {', '.join(step.limited_to)}: {neighbours} have the same clear answer"
    print_status(
        f"length {number} of {len(record.mix)}: {_describe(step.lengths, run)}, "
        f"{seconds:.0f} s of measuring, run {run.directory.name}{limit}"
    )


def _describe(lengths: Lengths, run: Run) -> str:
    """Return lengths in words; a forward pass has no output length."""
    if run.header().question.task == "forward":
        return f"{lengths.input_tokens} input tokens"
    return f"{lengths.input_tokens}/{lengths.output_tokens} tokens in/out"


def _compose(record: SweepRecord, decisions: Mapping[Lengths, Decision]) -> SweepDocument:
    from advisor.pipeline.sweeps.decision import decide_mix
    from advisor.report.sweeps import sweep_document

    try:
        mix = decide_mix(record, decisions)
    except UserError as problem:
        return sweep_document.compose(record, decisions, None, problem)
    return sweep_document.compose(record, decisions, mix, mix.problem)


def _print_document(document: SweepDocument, *, as_json: bool, as_events: bool) -> None:
    """Print the document; exit with the code of its problem when it recommends nothing."""
    from advisor.report.documents.document import encode
    from advisor.report.sweeps import sweep_text

    if as_events:
        print_text(msgspec.json.encode({"document": document}))
    else:
        print_text(encode(document) if as_json else sweep_text.render(document), nl=False)
    if document.problem is not None:
        print_status(f"{document.problem.what}; next: {document.problem.next_step}")
        raise typer.Exit(exit_code_of(document.problem.name))
