"""Parts of a report, accuracies and the activity of the machine in words, and tables of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tabulate

from advisor.domain.accuracy import has_only_top_tokens, worst_check, worst_error
from advisor.domain.machine import MachineActivity, QuietCheck, QuietProblem
from advisor.domain.text import MISSING, format_number, format_share
from probes.accuracy import AccuracyClass, Checked

#: What follows an error in tables, by class; nothing follows that of exact outputs.
MARKS: dict[AccuracyClass, str] = {"exact": "", "close": "~", "unchecked": "?", "incorrect": "!"}
ERROR_LEGEND = (
    "error: root mean square, relative to a reference, in higher precision where possible; text: "
    "divergence in nats a token, or a word from engines that report the likeliest tokens alone; ~ "
    "not exact; ? not checkable"
)

#: A line of a file.
PLACE = re.compile(r"[^ :]+:[0-9]+")

Subject = TypeVar("Subject")
#: The head of a column, and what it has in a row.
Column: TypeAlias = tuple[str, Callable[[Subject], str]]


def table_rows(columns: Sequence[Column[Subject]], subjects: Sequence[Subject]) -> list[list[str]]:
    """Return the head and a row for each subject; nothing without one."""
    rows = [[write(each) for _, write in columns] for each in subjects]
    return [[head for head, _ in columns], *rows] if rows else []


class ReportTable(NamedTuple):
    """A table of a report."""

    name: str
    title: str
    #: The head comes first.
    rows: Sequence[Sequence[str]]
    #: Lines below it.
    notes: Sequence[str] = ()
    #: Columns that are not numbers.
    text_columns: Collection[int] = (0,)


class Section(NamedTuple):
    """Sentences of a report; an indented one continues the one before it."""

    name: str
    title: str
    lines: Sequence[str]


def accuracy_cell(checks: Sequence[Checked]) -> str:
    """Return the largest error with the mark of the worst class, such as `2.1e-03~`.

    Divergences over different tokens do not compare, so the class stands for those that an engine
    with its likeliest tokens alone shows.
    """
    worst, error = worst_check(checks), worst_error(checks)
    if worst is None:
        return MISSING
    mark = MARKS[worst.accuracy_class]
    if error is None:
        return mark or MISSING
    return f"{worst.accuracy_class if has_only_top_tokens(checks) else format_error(error)}{mark}"


def format_error(error: float) -> str:
    """Return a relative error with two significant digits, such as `2.1e-03`."""
    return f"{error:.1e}" if error else "0"


def accuracy_line(checked: Checked) -> str:
    """Return all figures of one batch size, such as `close, relative error 2.1e-03, ...`."""
    found, tokens = checked.accuracy, " of the likeliest" if has_only_top_tokens([checked]) else ""
    kind = f"{checked.accuracy_class} ({found.fault})" if found.fault else checked.accuracy_class
    figures: list[tuple[str, Any, Callable[[Any], str]]] = [
        ("relative error {}", found.relative_error, format_error),
        (f"divergence {{}} nats a token{tokens}", found.kl_mean, format_error),
        ("{}x eager's", found.ratio_to_eager, lambda ratio: format_number(ratio, digits=2)),
        ("cosine {}", found.cosine, lambda cosine: f"{cosine:.8f}"),
        ("worst element {}", found.worst_element, format_error),
        ("top-1 {}", found.top1, lambda share: format_share(share, decimals=1)),
        ("equal tokens {}", found.equal_tokens, lambda share: format_share(share, decimals=1)),
        ("rounding alone {}", found.envelope, format_error),
        ("one input called {} times", found.same_input_calls or None, str),
    ]
    parts = [text.format(write(value)) for text, value, write in figures if value is not None]
    return f"{', '.join([kind, *parts])}, against {checked.reference}"


def describe_check(check: QuietCheck, *, waits: bool) -> str | None:
    """Return a line on the check; None for a machine that was quiet at once."""
    problems = "; ".join(describe_problem(problem, check.activity) for problem in check.problems)
    waited, allowed = f"{check.waited_seconds:.0f} s", f"{check.allowed_seconds:.0f} s"
    if not problems:
        return f"the machine is quiet after {waited}" if check.waited_seconds else None
    if waits:
        return f"the machine is not quiet: {problems}; waiting up to {allowed}"
    if check.allowed_seconds:
        return f"warning: after {waited} the machine is not quiet: {problems}; measuring anyway"
    return f"warning: the machine is not quiet: {problems}; --wait-for-quiet 5min would wait"


def describe_problem(problem: QuietProblem, activity: MachineActivity) -> str:
    idle, usable = activity.idle_processors or 0.0, activity.usable_processors
    count = len(activity.gpu_processes)
    match problem:
        case "cpu-busy":
            return f"only {idle:.1f} of {usable} usable processors are idle"
        case "cpu-stolen":
            stolen = format_share(activity.stolen_share or 0.0)
            return f"the hypervisor takes {stolen} of the processors' time"
        case "gpu-processes":
            return f"{count} other process{'es use' if count > 1 else ' uses'} the GPU"
        case "gpu-busy":
            busy = format_share(activity.gpu_busy_share or 0.0)
            return f"other work keeps the GPU busy for {busy} of the time"
        case "gpu-clocks-held-down":
            degrees = activity.temperature_c
            heat = f" at {degrees} \N{DEGREE SIGN}C" if degrees else ""
            return f"heat or a fault holds the GPU's clocks down{heat}"


def plain_table(
    rows: Sequence[Sequence[str]], text_columns: Collection[int] | None = None
) -> list[str]:
    """Align columns in `text_columns` to the left, others to the right; None aligns all left."""
    cells = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    # The first row is not passed as headers: tabulate pads headers, and terminals are narrow.
    return [line.rstrip() for line in _tabulate("plain", (), cells, text_columns)]


def markdown_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Collection[int] | None = None
) -> list[str]:
    """Align columns as `plain_table` does; the cells are Markdown, which the caller has escaped."""
    return _tabulate("pipe", head, rows, text_columns)


def _tabulate(
    style: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[int] | None,
) -> list[str]:
    columns = range(len(head or rows[0]))
    lefts = columns if text_columns is None else text_columns
    aligned = ["left" if column in lefts else "right" for column in columns]
    text = tabulate.tabulate(
        rows, headers=head, tablefmt=style, colalign=aligned, disable_numparse=True
    )
    return text.split("\n")
