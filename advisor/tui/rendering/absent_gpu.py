"""Render the answer for a GPU that is not attached; its origin comes first."""

from __future__ import annotations

from rich.text import Text

from advisor.domain.rubric import LETTERS
from advisor.report import text_report
from advisor.report.document import RunDocument, WorkflowEntry
from advisor.report.text_report import CRITERION_HEADS
from advisor.system.number_format import MISSING, format_speedup
from advisor.tui.rendering import text

NOT_MEASURED = "Not measured here. "
FROM_FIGURES = "From published figures: "
FROM_RUN = "From a stored run: "
ARM_WIDTH = 36


def render_absent_gpu(document: RunDocument) -> Text:
    """Return the origin, the answer, a table of at most 80 cells, and the reasons."""
    origin = FROM_FIGURES if document.provenance is None else FROM_RUN
    headline = text.printable(text_report.headline(document), 300)
    lines = Text(f"{NOT_MEASURED}{origin}{headline}\n", "bold")
    lines += _lines(text_report.confidence(document))
    lines += Text("\n") + _table(document) + Text("\n")
    advice = document.recommendation
    if advice is not None:
        lines += Text("Why\n", "bold") + _lines(advice.reasons)
        lines += Text("Why trust is not higher\n", "bold") + _lines(advice.trust_reasons)
        lines += Text("Next\n", "bold") + _lines(advice.next_steps)
    missing = text_report.unranked(document)
    return lines + Text("\n") + Text("\n".join(text.printable(line, 600) for line in missing))


def _lines(items: tuple[str, ...] | list[str]) -> Text:
    return Text("".join(f"{text.printable(item, 600)}\n" for item in items))


def _table(document: RunDocument) -> Text:
    ranked = sorted(
        (entry for entry in document.workflows if entry.rank is not None),
        key=lambda entry: entry.rank or 0,
    )
    if not ranked:
        return Text()
    head = f" #  {'Workflow':<{ARM_WIDTH}} {'Speed':>7}  {' '.join(CRITERION_HEADS.values())}\n"
    return Text(head, "bold") + Text("".join(map(_row, ranked)))


def _row(entry: WorkflowEntry) -> str:
    scores = entry.scores or {}
    letters = "".join(
        f"{LETTERS[scores[name].tier] if name in scores else MISSING:^5}"
        for name in CRITERION_HEADS
    )
    arm = text.truncate_middle(text.printable(entry.arm), ARM_WIDTH)
    mark = "!" if entry.fails else " "
    return (
        f"{entry.rank:>2}{mark} {arm:<{ARM_WIDTH}} {format_speedup(entry.speedup):>7}  {letters}\n"
    )
