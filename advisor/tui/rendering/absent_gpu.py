"""Render the answer for a GPU that is not attached; its origin comes first."""

from __future__ import annotations

from rich.text import Text

from advisor.domain.rubric import LETTERS
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.report.sections.answer import confidence, headline
from advisor.report.sections.ranking_cells import CRITERION_HEADS
from advisor.report.sections.unranked import unranked
from advisor.system.number_format import MISSING, format_speedup
from advisor.tui.rendering import text

FROM_RUN = "Not measured here. From a stored run: "
#: Width of the names of arms, at most, and of the rest of a row.
MAX_ARM_WIDTH, REST_WIDTH = 36, 40
MIN_ARM_WIDTH = 12


def render_absent_gpu(document: RunDocument, width: int) -> Text:
    """Return the origin, the answer, a table that fits into `width` cells, and the reasons."""
    origin = FROM_RUN if document.provenance is not None else ""
    first_line = text.printable(headline(document), 300)
    lines = text.styled(f"{origin}{first_line}\n", "bold")
    lines += _lines(confidence(document))
    arm_width = max(min(width - REST_WIDTH, MAX_ARM_WIDTH), MIN_ARM_WIDTH)
    lines += Text("\n") + _table(document, arm_width) + Text("\n")
    advice = document.recommendation
    if advice is not None:
        lines += text.styled("Why\n", "bold") + _lines(advice.reasons)
        lines += text.styled("Why trust is not higher\n", "bold") + _lines(advice.trust_reasons)
        lines += text.styled("Next\n", "bold") + _lines(advice.next_steps)
    missing = unranked(document)
    return lines + Text("\n") + Text("\n".join(text.printable(line, 600) for line in missing))


def _lines(items: tuple[str, ...] | list[str]) -> Text:
    return Text("".join(f"{text.printable(item, 600)}\n" for item in items))


def _table(document: RunDocument, arm_width: int) -> Text:
    ranked = sorted(
        (entry for entry in document.workflows if entry.rank is not None),
        key=lambda entry: entry.rank or 0,
    )
    if not ranked:
        return Text()
    head = f" #  {'Workflow':<{arm_width}} {'Speed':>7}  {' '.join(CRITERION_HEADS.values())}\n"
    return text.styled(head, "bold") + Text("".join(_row(entry, arm_width) for entry in ranked))


def _row(entry: WorkflowEntry, arm_width: int) -> str:
    scores = entry.scores or {}
    letters = "".join(
        f"{LETTERS[scores[name].tier] if name in scores else MISSING:^5}"
        for name in CRITERION_HEADS
    )
    arm = text.truncate_middle(text.printable(entry.arm), arm_width)
    mark = "!" if entry.failed_constraints else " "
    return (
        f"{entry.rank:>2}{mark} {arm:<{arm_width}} {format_speedup(entry.speedup):>7}  {letters}\n"
    )
