"""Open answers of runs and files, and write them as files: reports, and formats of other tools."""

from __future__ import annotations

import codecs
import os
import pathlib
import shlex
from collections.abc import Callable, Mapping, Sequence

import msgspec

from advisor.ask import catalogue_files
from advisor.ask.context import Context
from advisor.decide import answers
from advisor.decide.performance_portability import is_same_work
from advisor.decide.rounds import counted_visits
from advisor.domain import errors
from advisor.domain.answer import SCHEMA, Answer, AnswerSummary, Problem, encode
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.measurement import Cell, TimedVisit
from advisor.domain.results import Platform, Results
from advisor.domain.rubric import Rubric
from advisor.domain.run_state import Header, RunState
from advisor.domain.text import escape_control_chars
from advisor.domain.version import how_to_install
from advisor.domain.wire import check_bounds
from advisor.report import figures, markdown
from advisor.report.headline import AnswerDocument
from advisor.store.runs import ANSWERS, HistoryEntry, Run, refuse_newer, size_of_events
from advisor.store.store import Store


def write(
    name: str, answer: Answer, run: Run | None = None, elsewhere: Sequence[Answer] = ()
) -> bytes:
    """Return the file of an answer in a format; without its run the recipe has lines alone.

    Control characters of texts are escaped. Raise `OptionValueError` for an unknown format, and
    `MissingExtraError` if a library is missing.
    """
    if name not in REPORT_FORMATS:
        raise errors.OptionValueError(
            f"unknown format {name!r}", errors.choose_among(name, REPORT_FORMATS)
        )
    try:
        content = REPORT_FORMATS[name](answer, run, elsewhere)
    except ModuleNotFoundError as problem:
        raise errors.MissingExtraError(
            f"the package {problem.name} is not installed", how_to_install("export")
        ) from problem
    return content if isinstance(content, bytes) else escape_control_chars(content).encode()


def _write_page(answer: Answer, run: Run | None, _: Sequence[Answer]) -> str:
    from advisor.report import page, recipe_text  # noqa: PLC0415 - template engines import slowly

    return page.render(answer, recipe_text.render_recommended(answer, run))


#: What writes the files of each format, whose names end with that of the format: from the answer,
#: its run, and the answers of the same model on other devices.
REPORT_FORMATS: Mapping[str, Callable[[Answer, Run | None, Sequence[Answer]], str | bytes]] = {
    "html": _write_page,
    "md": lambda answer, *_: markdown.render(answer),
    "csv": lambda answer, _, elsewhere: figures.to_csv([answer, *elsewhere]),
    "json": lambda answer, *_: encode(AnswerDocument.of(answer)),
    "parquet": lambda answer, *_: figures.to_parquet(answer),
}
SUFFIXES = [f".{name}" for name in REPORT_FORMATS]


def is_file(name: str) -> bool:
    """Check whether `name` is a file with an answer rather than a stored run."""
    return name.endswith(".json") and os.path.isfile(name)  # noqa: PTH113 - False for a name that is too long


def answer_of_run(
    run: Run,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
    platforms: Sequence[Run] = (),
    with_times: bool = False,
) -> Answer:
    """Score the arms of a stored run and recommend one; the same events give the same answer.

    `with_times` adds the seconds of every call that counts. Priorities, constraints, a rubric and
    runs on other platforms replace those of the run. Raise `RunFileError` if the stored events
    contradict each other or the header, and `OptionValueError` for constraints on figures that the
    run's task does not measure.
    """
    is_active, header, state = run.is_active(), run.header(), run.state()
    question = answers.with_preferences(header.question, priorities, constraints)
    if platforms:
        state = msgspec.structs.replace(state, platforms=_platforms_of(platforms, header))
    catalogue = header.catalogue
    if rubric is not None:
        catalogue = msgspec.structs.replace(catalogue, rubric=catalogue_files.read(rubric, Rubric))
    header = msgspec.structs.replace(header, question=question, catalogue=catalogue)
    answer = answers.answer_from_stored(header, state, f"{run.directory}")
    in_progress, problem = is_active and not state.finished, answer.problem
    if in_progress and problem:
        problem = Problem.of(
            errors.RunIsActiveError("the run is still being measured", "wait for it")
        )
    return msgspec.structs.replace(
        answer,
        in_progress=in_progress,
        problem=problem,
        resumable=answer.resumable if not state.finished or run.scratch.is_dir() else False,
        results=_add_times(answer.results, state) if with_times else answer.results,
    )


def _add_times(results: Results, state: RunState) -> Results:
    def add_to(cell: Cell, arm: str) -> Cell:
        visits = counted_visits(state, arm, cell.shape)
        times = (
            TimedVisit(repeat=repeat, round=visit.round, seconds=visit.seconds)
            for repeat, visit in visits
        )
        return msgspec.structs.replace(cell, times=tuple(times))

    measurements = (
        msgspec.structs.replace(each, cells=tuple(add_to(cell, each.arm) for cell in each.cells))
        for each in results.measurements
    )
    return msgspec.structs.replace(results, measurements=tuple(measurements))


def _platforms_of(runs: Sequence[Run], header: Header) -> tuple[Platform, ...]:
    """Read the runs; raise `PlatformError` for a run of other work, or two runs of one device."""
    devices = {header.device_name}
    for run in runs:
        other = run.header()
        if not is_same_work(other.question, header.question):
            raise errors.PlatformError(
                f"run {other.run_id} measured another model or other sizes",
                "name runs of the same model and sizes",
            )
        if other.device_name in devices:
            raise errors.PlatformError(
                f"run {other.run_id} is on {other.device_name} too", "name one run for each device"
            )
        devices.add(other.device_name)
    return tuple(answers.platform_of_run(run.header(), run.state()) for run in runs)


def open_answer(
    name: str,
    context: Context,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> Answer:
    """Decide on a run with its own catalogue, or on a file with the present one.

    Raise `ExportFileError` for other files.
    """
    if not is_file(name):
        run = context.store.find(name)
        return answer_of_run(run, priorities=priorities, constraints=constraints, rubric=rubric)
    answer = read_answer(name)
    again = answers.answer_from_results(
        answer, context.catalogue(rubric), priorities=priorities, constraints=constraints
    )
    # The run need not be stored here, so its id may open nothing.
    command = again.rerun_command or f"p3-advisor show {shlex.quote(name)} --json"
    return msgspec.structs.replace(again, rerun_command=command, foreign=True)


def open_with_catalogue(name: str, context: Context) -> tuple[Answer, Catalogue, Run | None]:
    """Return an answer, what it was decided with, and its run; None for the answer of a file."""
    if is_file(name):
        return open_answer(name, context), context.catalogue(), None
    run = context.store.find(name)
    return answer_of_run(run), run.header().catalogue, run


def read_answer(name: str) -> Answer:
    """Read an answer from a file; raise `ExportFileError` or `NewerVersionError`."""
    next_step = "name a file that p3-advisor --json or show --json wrote"
    try:
        content = pathlib.Path(name).read_bytes()
        if content.startswith(codecs.BOM_UTF16):  # as some shells write what a command prints
            content = content.decode("utf-16").encode()
        content = content.removeprefix(codecs.BOM_UTF8)
        refuse_newer(content, SCHEMA, name)
        answer = ANSWERS.decode(content)
        check_bounds(answer)
    except OSError as problem:
        raise errors.ExportFileError(
            f"{name} cannot be read: {problem.strerror}", next_step
        ) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise errors.ExportFileError(
            f"{name} is not the answer of a run: {problem}", next_step
        ) from problem
    return answer


def describe_change(name: str, answer: Answer) -> str:
    """Return how an answer differs from what its file says; empty if it does not, or for a run."""
    if not is_file(name):
        return ""
    before, now = (AnswerSummary.of(each) for each in (read_answer(name), answer))
    was, found = (f"{each.decision_word or ''} {each.label}".strip() for each in (before, now))
    return f"the file says {was}; the present rules say {found}" if was != found else ""


def read_summary(store: Store, entry: HistoryEntry) -> AnswerSummary:
    """Return the answer of a stored run; it is decided once and then read from the store.

    That of a run without an answer, or that cannot be read, has the problem alone.
    """
    if entry.answer is not None:
        return entry.answer
    run = store.run(entry.run_id)
    events_bytes = size_of_events(str(run.directory))
    try:
        summary = AnswerSummary.of(answer_of_run(run))
    except errors.UserError as problem:
        return AnswerSummary(problem=Problem.of(problem))
    store.save_answer(entry, summary, events_bytes)
    return summary
