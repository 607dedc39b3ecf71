"""Render a run as Markdown for a pull request: the answer, the comparison, what is missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from advisor.domain.answer import Answer, UnmeasuredArm
from advisor.report import accuracy, serving_tables, text_generation
from advisor.report.answer import confidence, headline, stop_notice
from advisor.report.answer_card import length_rows
from advisor.report.formatting import markdown_table
from advisor.report.ranking import ranking_rows
from advisor.report.setup_facts import setup_facts

#: Characters that Markdown or embedded HTML would interpret.
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_{}[]()#+!|~$@"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def render(answer: Answer) -> str:
    blocks = [
        [f"## {escape(headline(answer))}"],
        [f"{escape(line)}  " for line in (*stop_notice(answer), *confidence(answer))],
        _table(ranking_rows(answer, has_intervals=True), text_columns={1}),
        _table(length_rows(answer)),
        _table(text_generation.table_rows(answer)),
        [f"{escape(line)}  " for line in text_generation.mismatch_lines(answer)],
        _table(serving_tables.server_rows(answer)),
        _table(serving_tables.level_rows(answer)),
        _table(serving_tables.asked_rows(answer)),
        *_trade_off(answer),
        *_reasons(answer),
        _unranked(answer),
        _setup(answer),
        [_footer(answer)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _table(rows: list[list[str]], text_columns: Collection[int] = (0,)) -> list[str]:
    """Return a head and rows as a table; nothing without rows."""
    escaped = [[escape(cell) for cell in row] for row in rows]
    return markdown_table(escaped[0], escaped[1:], text_columns) if rows else []


def _trade_off(answer: Answer) -> list[list[str]]:
    """Return the accuracy of quantised arms against speed and memory, and what each arm loses."""
    tables = accuracy.titled_tables(answer)
    blocks = [block for title, rows in tables for block in ([escape(title)], _table(rows))]
    return [*blocks, [f"- {escape(line)}" for line in accuracy.loss_lines(answer)]]


def _reasons(answer: Answer) -> list[list[str]]:
    advice = answer.recommendation
    if advice is None:
        return []
    blocks = [["### Why", "", *(f"- {escape(reason)}" for reason in advice.reasons)]]
    if advice.trust_reasons:
        reasons = [f"- {escape(reason)}" for reason in advice.trust_reasons]
        blocks.append(["Why trust is not higher:", "", *reasons])
    return blocks


def _unranked(answer: Answer) -> list[str]:
    barred = [(arm.arm, "; ".join(arm.failed_constraints)) for arm in answer.scores if arm.failures]
    missing = [(each.arm, _missing_reason(each)) for each in answer.unmeasured]
    reasons: dict[str, list[str]] = {}
    for arm, reason in [*barred, *missing]:
        reasons.setdefault(reason, []).append(arm)
    rows = [[escape(", ".join(arms)), escape(reason)] for reason, arms in reasons.items()]
    if not rows:
        return []
    return _folded(
        "Not ranked, or excluded by a constraint", markdown_table(["workflow", "why"], rows)
    )


def _missing_reason(entry: UnmeasuredArm) -> str:
    next_step = f"; next: {entry.fix}" if entry.fix else ""
    return f"{entry.status}: {entry.reason}{next_step}"


def _setup(answer: Answer) -> list[str]:
    rows = [[escape(name), escape(value)] for name, value in setup_facts(answer)]
    return _folded("Question and machine", markdown_table(["", ""], rows))


def _footer(answer: Answer) -> str:
    origin = ", imported from another machine" if answer.imported else ""
    return (
        f"Run {escape(answer.run_id)}{origin}, {escape(answer.created)}, "
        f"p3-advisor {escape(answer.advisor_version)}."
    )


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def escape(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged."""
    return " ".join(text.split()).translate(ESCAPES)
