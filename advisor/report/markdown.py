"""Render a run as Markdown for a pull request: the answer, the comparison, what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.priorities import CRITERIA
from advisor.domain.rubric import LETTERS
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.report.formatting.tabular import markdown_table
from advisor.report.sections import serving_tables, text_generation, trade_off
from advisor.report.sections.answer import confidence, has_unfit_problem, headline, stop_notice
from advisor.report.sections.ranking_cells import (
    COST_HEADS,
    CRITERION_HEADS,
    cost_cells,
    rank_cell,
    score_cell,
)
from advisor.report.sections.setup_facts import setup_facts
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_milliseconds,
)

#: Characters that Markdown or embedded HTML would interpret.
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_{}[]()#+!|~$@"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def render(document: RunDocument) -> str:
    ranked = [entry for entry in document.workflows if entry.rank is not None]
    blocks = [
        [f"## {escape(headline(document))}"],
        [f"{escape(line)}  " for line in (*stop_notice(document), *confidence(document))],
        ranking(ranked, unfit=has_unfit_problem(document)) if ranked else [],
        _table(text_generation.table_rows(document)),
        [f"{escape(line)}  " for line in text_generation.mismatch_lines(document)],
        _table(serving_tables.server_rows(document)),
        _table(serving_tables.level_rows(document)),
        _table(serving_tables.asked_rows(document)),
        *_trade_off(document),
        *_reasons(document),
        _unranked(document),
        _setup(document),
        [_footer(document)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def ranking(ranked: Sequence[WorkflowEntry], *, unfit: bool) -> list[str]:
    """Return the table of the arms with a score, best first."""
    sizes = [cell.batch_size for cell in ranked[0].cells]
    head = [
        "#",
        "arm",
        "speed-up (95 %)",
        *(f"ms @{size}" for size in sizes),
        *COST_HEADS,
        *CRITERION_HEADS.values(),
        "score",
    ]
    return markdown_table(
        head, [_row(entry, sizes, unfit=unfit) for entry in ranked], text_columns={1}
    )


def _row(entry: WorkflowEntry, sizes: Sequence[int], *, unfit: bool) -> list[str]:
    milliseconds = {
        cell.batch_size: format_milliseconds(cell.seconds.median) for cell in entry.cells
    }
    scores = entry.scores or {}
    return [
        rank_cell(entry, is_unfit=unfit),
        escape(entry.arm),
        format_interval(entry.speedup),
        *(milliseconds.get(size, MISSING) for size in sizes),
        *(escape(cell) for cell in cost_cells(entry)),
        *(LETTERS[scores[name].tier] for name in CRITERIA),
        score_cell(entry, is_unfit=unfit),
    ]


def _table(rows: list[list[str]]) -> list[str]:
    """Return a head and rows as a table; nothing without rows."""
    escaped = [[escape(cell) for cell in row] for row in rows]
    return markdown_table(escaped[0], escaped[1:], text_columns={0}) if rows else []


def _trade_off(document: RunDocument) -> list[list[str]]:
    """Return the accuracy of quantised arms against speed and memory, and what each arm loses."""
    tables = trade_off.titled_tables(document)
    blocks = [block for title, rows in tables for block in ([escape(title)], _table(rows))]
    return [*blocks, [f"- {escape(line)}" for line in trade_off.loss_lines(document)]]


def _reasons(document: RunDocument) -> list[list[str]]:
    advice = document.recommendation
    if advice is None:
        return []
    blocks = [["### Why", "", *(f"- {escape(reason)}" for reason in advice.reasons)]]
    if advice.trust_reasons:
        reasons = [f"- {escape(reason)}" for reason in advice.trust_reasons]
        blocks.append(["Why trust is not higher:", "", *reasons])
    return blocks


def _unranked(document: RunDocument) -> list[str]:
    barred = [
        (entry.arm, "; ".join(entry.failed_constraints))
        for entry in document.workflows
        if entry.failed_constraints
    ]
    missing = [
        (entry.arm, _missing_reason(entry)) for entry in document.workflows if entry.rank is None
    ]
    reasons: dict[str, list[str]] = {}
    for arm, reason in [*barred, *missing]:
        reasons.setdefault(reason, []).append(arm)
    rows = [[escape(", ".join(arms)), escape(reason)] for reason, arms in reasons.items()]
    if not rows:
        return []
    return _folded(
        "Not ranked, or excluded by a constraint", markdown_table(["workflow", "why"], rows)
    )


def _missing_reason(entry: WorkflowEntry) -> str:
    next_step = f"; next: {entry.fix}" if entry.fix else ""
    return f"{entry.status}: {entry.reason or 'no reason is known'}{next_step}"


def _setup(document: RunDocument) -> list[str]:
    rows = [[escape(name), escape(value)] for name, value in setup_facts(document)]
    return _folded("Question and machine", markdown_table(["", ""], rows))


def _footer(document: RunDocument) -> str:
    origin = ", imported from another machine" if document.imported else ""
    return (
        f"Run {escape(document.run_id)}{origin}, {escape(document.created)}, "
        f"p3-advisor {escape(document.advisor_version)}."
    )


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def escape(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged."""
    return " ".join(text.split()).translate(ESCAPES)
