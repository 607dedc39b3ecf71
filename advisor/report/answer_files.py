"""Open answers, read summaries, and write answers as files: reports, and formats of other tools."""

from __future__ import annotations

import codecs
import csv
import io
import os
import pathlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from advisor.context import Context
from advisor.decide.decision import decide, decide_again
from advisor.domain.answer import SCHEMA, Answer, AnswerSummary, encode
from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.wire import check_bounds
from advisor.errors import ExportFileError, MissingExtraError, UserError
from advisor.report import figures
from advisor.report.figures import Value
from advisor.store.runs import DECODING, HistoryEntry, Run, refuse_newer, size_of_events
from advisor.store.store import Store
from advisor.version import how_to_install

#: Characters with which spreadsheets begin a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


class Format(NamedTuple):
    """How the name of a file of a format ends, and what writes it.

    The function takes the answer, those of the same model on other devices, and the recipe of the
    recommended arm.
    """

    suffix: str
    write: Callable[[Answer, Sequence[Answer], str | None], str | bytes]


def write(
    name: str, answer: Answer, elsewhere: Sequence[Answer] = (), recipe: str | None = None
) -> str | bytes:
    """Return an answer in one of `FORMATS`; raise `MissingExtraError` if a library is missing."""
    try:
        return FORMATS[name].write(answer, elsewhere, recipe)
    except ModuleNotFoundError as problem:
        raise MissingExtraError(
            f"the package {problem.name} is not installed", how_to_install("export")
        ) from problem


def to_html(answer: Answer, recipe: str | None = None) -> str:
    from advisor.report import page  # noqa: PLC0415 - template engines import slowly

    return page.render(answer, recipe)


def to_markdown(answer: Answer) -> str:
    from advisor.report import markdown  # noqa: PLC0415 - with its tables

    return markdown.render(answer)


def to_csv(answers: Sequence[Answer]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, figures.COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        for row in figures.rows(answer):
            writer.writerow({name: escape_formula(value) for name, value in row.items()})
    return text.getvalue()


def escape_formula(value: Value) -> Value:
    is_formula = isinstance(value, str) and value.startswith(FORMULA_PREFIXES)
    return f"'{value}" if is_formula else value


def to_parquet(answer: Answer) -> bytes:
    """Return the rows as Parquet; a null stands for a value that is not known."""
    import pyarrow as pa  # noqa: PLC0415 - an extra and slow to import
    from pyarrow import parquet  # noqa: PLC0415 - as above

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(each.name, types[each.kind]) for each in figures.FIGURES])
    file = io.BytesIO()
    table = pa.Table.from_pylist(list(figures.rows(answer)), schema=schema)
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


FORMATS: Mapping[str, Format] = {
    "html": Format(".html", lambda answer, _, recipe: to_html(answer, recipe)),
    "md": Format(".md", lambda answer, *_: to_markdown(answer)),
    "csv": Format(".csv", lambda answer, elsewhere, _: to_csv([answer, *elsewhere])),
    "json": Format(".json", lambda answer, *_: encode(answer)),
    "parquet": Format(".parquet", lambda answer, *_: to_parquet(answer)),
}


SUFFIX = ".json"


def is_file(name: str) -> bool:
    """Check whether `name` is a file with an answer rather than a stored run."""
    return name.endswith(SUFFIX) and os.path.isfile(name)  # noqa: PTH113 - too long a name is none


def open_answer(
    name: str,
    context: Context,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> Answer:
    """Decide with the present rubric; raise `ExportFileError` for a file that is no answer."""
    if not is_file(name):
        run = context.store.find(name)
        return decide(run, priorities=priorities, constraints=constraints, rubric=rubric)
    answer = read_answer(name)
    again = decide_again(
        answer, context.catalogue(rubric), priorities=priorities, constraints=constraints
    )
    # The run need not be stored here, so its id may open nothing.
    command = again.rerun_command or f"p3-advisor show {shlex.quote(name)} --json"
    return msgspec.structs.replace(again, rerun_command=command)


def read_answer(name: str) -> Answer:
    """Read an answer from a file; raise `ExportFileError` or `NewerVersionError`."""
    next_step = "name a file that p3-advisor --json or show --json wrote"
    try:
        content = pathlib.Path(name).read_bytes()
        if content.startswith(codecs.BOM_UTF16):  # as some shells write what a command prints
            content = content.decode("utf-16").encode()
        content = content.removeprefix(codecs.BOM_UTF8)
        refuse_newer(content, SCHEMA, name)
        with DECODING:
            answer = msgspec.json.decode(content, type=Answer)
        check_bounds(answer)
    except OSError as problem:
        raise ExportFileError(f"{name} cannot be read: {problem.strerror}", next_step) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise ExportFileError(
            f"{name} is not the answer of a run: {problem}", next_step
        ) from problem
    return answer


def read_summary(store: Store, entry: HistoryEntry) -> AnswerSummary:
    """Return the answer of a stored run; it is decided once and then read from the store.

    A run without an answer, or that cannot be read, has an empty summary.
    """
    if entry.answer is not None:
        return entry.answer
    run = Run(store.run_directory(entry.run_id))
    events_bytes = size_of_events(str(run.directory))
    try:
        summary = AnswerSummary.of(decide(run))
    except UserError as problem:
        return AnswerSummary(headline=problem.what)
    store.save_answer(entry, summary, events_bytes)
    return summary


def read_summaries(store: Store, entries: Iterable[HistoryEntry]) -> dict[str, AnswerSummary]:
    return {entry.run_id: read_summary(store, entry) for entry in entries if entry.finished}


def with_answers(store: Store, entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    answers = read_summaries(store, entries)
    return [msgspec.structs.replace(entry, answer=answers.get(entry.run_id)) for entry in entries]
