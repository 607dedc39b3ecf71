"""Render the answer for a GPU that is not attached; its origin comes first."""

from __future__ import annotations

from rich.text import Text

from advisor.domain.answer import Answer, RankedArm
from advisor.domain.rubric import LETTERS
from advisor.report.sections.answer import confidence, headline
from advisor.report.sections.ranking_cells import CRITERION_HEADS
from advisor.report.sections.unranked import unranked
from advisor.system.number_format import format_speedup
from advisor.tui.rendering import text

FROM_RUN = "Not measured here. From a stored run: "
#: Width of the names of arms, at most, and of the rest of a row.
MAX_ARM_WIDTH, REST_WIDTH = 36, 40
MIN_ARM_WIDTH = 12


def render_absent_gpu(document: Answer, width: int) -> Text:
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


def _table(document: Answer, arm_width: int) -> Text:
    if not document.scores:
        return Text()
    head = f" #  {'Workflow':<{arm_width}} {'Speed':>7}  {' '.join(CRITERION_HEADS.values())}\n"
    return text.styled(head, "bold") + Text(
        "".join(_row(entry, arm_width) for entry in document.ranked)
    )


def _row(entry: RankedArm, arm_width: int) -> str:
    scored = entry.scored
    letters = "".join(f"{LETTERS[scored.ratings[name].tier]:^5}" for name in CRITERION_HEADS)
    arm = text.truncate_middle(text.printable(entry.arm), arm_width)
    mark = "!" if scored.failures else " "
    return (
        f"{scored.rank:>2}{mark} {arm:<{arm_width}} {format_speedup(entry.speedup):>7}  {letters}\n"
    )
