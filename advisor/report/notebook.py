"""The progress and the results of a run, for Python programs and notebooks.

IPython is used only where the caller runs in it.
"""

from __future__ import annotations

import functools
import html
import pathlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from typing_extensions import ParamSpec

from advisor.ask.option_values import choose_priorities, parse_constraints
from advisor.ask.run_options import RunOptions
from advisor.decide.answers import answer_from_results
from advisor.decide.comparison import Comparison, compare_answers
from advisor.domain import errors
from advisor.domain.answer import Answer, Problem
from advisor.domain.catalogue import Catalogue
from advisor.domain.plan import Plan
from advisor.domain.recommendation import Recommendation
from advisor.domain.run_events import LoggedEvent, WorkerEnded, WorkerReported
from advisor.domain.text import escape_control_chars
from advisor.domain.version import how_to_install
from advisor.report import answer_files, figures, progress_lines
from advisor.report.answer_lines import code_lines
from advisor.report.headline import write_headline
from advisor.report.ranking import ranking_rows
from advisor.report.text_report import where_more_is
from advisor.store.runs import Run
from probes.events import PhaseStarted

if TYPE_CHECKING:
    import pandas as pd


Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def reports_errors(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Return the function with the next step added to the notes of a `UserError`."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **keywords: Arguments.kwargs) -> Returned:
        try:
            return function(*args, **keywords)
        except errors.UserError as problem:
            if hasattr(problem, "add_note"):  # from Python 3.11 on
                problem.add_note(f"next: {problem.next_step}")
            raise

    return call


def priority_option(priorities: Mapping[str, float] | str) -> dict[str, str]:
    """Return the option that has these weights, or the preset of this name."""
    if isinstance(priorities, str):
        return {"preset": priorities}
    what, next_step = "priorities cannot be read", "pass a mapping of weights, or a preset's name"
    with errors.reported_as(
        errors.OptionValueError, what, next_step, (AttributeError, TypeError, ValueError)
    ):
        weights = (f"{name}={weight:g}" for name, weight in priorities.items())
        return {"priority": ",".join(weights)}


def show_progress(plan: Plan, *, wanted: bool | None) -> Callable[[LoggedEvent], None]:
    """Return a function that shows an event in a notebook, else on standard error."""
    display = _notebook_display() if wanted is not False else None
    if display is not None:
        return _ProgressLine(plan, display)
    is_shown = sys.stderr.isatty() if wanted is None else wanted
    return _print_event if is_shown else lambda _event: None


def _print_event(event: LoggedEvent) -> None:
    line = progress_lines.render_event(event)
    if line is not None:
        sys.stderr.write(f"{event.at:.0f} s: {escape_control_chars(line)}\n")


def _notebook_display() -> types.ModuleType | None:
    """Return `IPython.display` where a notebook runs this process; else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return sys.modules.get("IPython.display") if getattr(shell, "kernel", None) else None


class _ProgressLine:
    """A bar of the arms that are built or have failed, and the last line of progress."""

    def __init__(self, plan: Plan, display: types.ModuleType) -> None:
        self._arms = {each.id for each in plan.arms}
        self._done: set[str] = set()
        self._display = display
        self._handle = display.display(display.HTML(""), display_id=True)

    def __call__(self, event: LoggedEvent) -> None:
        match event.run_event:
            # An arm that is warmed up is built.
            case WorkerReported(arm=arm, worker_event=PhaseStarted(phase="warmup")):
                self._done.add(arm)
            case WorkerEnded(arm=arm):
                self._done.add(arm)
            case _:
                pass
        line = progress_lines.render_event(event)
        if line is not None:
            done = len(self._done & self._arms)
            bar = f'<progress max="{len(self._arms)}" value="{done}"></progress>'
            self._handle.update(self._display.HTML(f"{bar} {html.escape(line)}"))


class Report:
    """A run with its recommendation; `answer` has every figure, `catalogue` what explains it."""

    def __init__(self, answer: Answer, catalogue: Catalogue, run: Run | None = None) -> None:
        self.answer = answer
        self.catalogue = catalogue
        self._run = run

    @property
    def run_id(self) -> str:
        return self.answer.run_id

    @property
    def recommendation(self) -> Recommendation | None:
        """The advice; None if there is none, for the reason in `problem`."""
        return self.answer.recommendation

    @property
    def problem(self) -> Problem | None:
        return self.answer.problem

    @reports_errors
    def decide(
        self,
        *,
        priorities: Mapping[str, float] | str | None = None,
        require: Sequence[str] | str | None = None,
    ) -> Report:
        """Return the report with other weights or constraints; nothing is measured again."""
        given = priority_option(priorities) if priorities else {}
        options = msgspec.convert(given, RunOptions)
        text = require if isinstance(require, str) or require is None else ",".join(require)
        again = answer_from_results(
            self.answer,
            self.catalogue,
            priorities=choose_priorities(options, self.catalogue) if given else None,
            constraints=parse_constraints(text) if text is not None else None,
        )
        return Report(again, self.catalogue, self._run)

    def compare(self, before: Report, *, threshold: float = 0.05) -> Comparison:
        """Compare this run with an earlier one; `threshold` is a share."""
        return compare_answers(before.answer, self.answer, threshold, self.catalogue.presets.noise)

    @reports_errors
    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each arm and batch size; needs pandas (extra `notebook`).

        A row for each arm and workflow without a measurement follows, with its reason.
        Times are in seconds, memory in bytes; shares and speed-ups are plain ratios.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as problem:
            raise errors.MissingExtraError(
                "pandas is not installed", how_to_install("notebook")
            ) from problem
        return pd.DataFrame(figures.rows(self.answer), columns=figures.COLUMNS)

    @reports_errors
    def save(self, file: str | pathlib.Path) -> pathlib.Path:
        """Write the format of the suffix; raise `OptionValueError` for one without a format."""
        path = pathlib.Path(file)
        content = answer_files.write(path.suffix[1:].lower(), self.answer, self._run)
        with errors.reported_as(
            errors.OutputFileError, f"{path} cannot be written", "name another file"
        ):
            path.write_bytes(content)
        return path

    def __repr__(self) -> str:
        code = [f"    {line}" for line in code_lines(self.answer)]
        lines = [line.text for line in write_headline(self.answer)]
        return "\n".join([*lines, *code, *where_more_is(self.answer)])

    def _repr_html_(self) -> str:
        return render_html(self.answer)


def render_html(answer: Answer) -> str:
    """Return the headline and a table of the ranked arms as HTML without style or script."""
    first, *rest = (html.escape(line.text) for line in write_headline(answer))
    head, *rows = ranking_rows(answer, has_intervals=True) or [[]]
    lines = [_row(head, "th"), *(_row(row, "td") for row in rows)]
    table = f"<table>{''.join(lines)}</table>" if rows else ""
    return f"<div><p><strong>{first}</strong><br>{'<br>'.join(rest)}</p>{table}</div>"


def _row(cells: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"
