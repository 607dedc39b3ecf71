"""Render a run as Markdown for a pull request: the answer, the comparison, what is missing."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence

from advisor.domain.answer import Answer
from advisor.report.answer_lines import answer_lines, code_lines
from advisor.report.formatting import ReportTable, Section, markdown_table
from advisor.report.ranking import ranking_rows
from advisor.report.setup_facts import setup_facts
from advisor.report.tables import list_sections, list_tables
from advisor.report.text_report import measured_line

#: Characters that Markdown or embedded HTML would interpret.
ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_{}[]()#+!|~$@"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def render(answer: Answer) -> str:
    found, (first, *others) = list_sections(answer), answer_lines(answer)
    origin = ", imported or stored elsewhere" if answer.foreign else ""
    run = f"{escape(answer.run_id)}{origin}, {answer.created.isoformat()}"
    blocks = [
        [f"## {escape(first)}"],
        [f"{escape(line)}  " for line in [*others, *measured_line(answer)]],
        # Nothing in such a block can end it.
        [f"    {line}" for line in code_lines(answer)],
        escaped_table(ranking_rows(answer, has_intervals=True), {1}),
        *(table(each) for each in list_tables(answer)),
        *(section(each) for each in found if each.name == "trust"),
        *(
            _folded(html.escape(each.title), bullets(each.lines))
            for each in found
            if each.name != "trust"
        ),
        _folded("Question and machine", escaped_table([("", ""), *setup_facts(answer)], {0, 1})),
        [f"Run {run}, p3-advisor {escape(answer.advisor_version)}."],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def table(found: ReportTable) -> list[str]:
    notes = [f"{escape(line)}  " for line in found.notes]
    rows = escaped_table(found.rows, found.text_columns)
    return [f"**{escape(found.title)}**", "", *rows, "", *notes]


def escaped_table(rows: Sequence[Sequence[str]], text_columns: Collection[int]) -> list[str]:
    """Return the table of rows, of which the first is the head; nothing without one."""
    escaped = [[escape(cell) for cell in row] for row in rows]
    return markdown_table(escaped[0], escaped[1:], text_columns) if rows else []


def section(found: Section) -> list[str]:
    return [f"### {escape(found.title)}", "", *bullets(found.lines)]


def bullets(lines: Sequence[str]) -> list[str]:
    """Return a list; an indented line is an item of the one before it."""
    return [f"{' ' * (len(line) - len(line.lstrip()))}- {escape(line)}" for line in lines]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def escape(text: str) -> str:
    """Return the text on one line, escaped so that Markdown shows it unchanged."""
    return " ".join(text.split()).translate(ESCAPES)
