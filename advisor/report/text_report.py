"""Render a run as plain text for a terminal: the instruction, how far to trust it, the figures."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import PUBLISHED, Answer
from advisor.domain.model import has_random_weights
from advisor.report import parts
from advisor.report.answer import answer_lines
from advisor.report.formatting import LEGEND, Table, plain_table
from advisor.report.ranking import ranking_rows, speed_unit
from advisor.report.setup_facts import (
    describe_inputs,
    describe_load,
    describe_shapes,
    input_facts,
    unmeasured_shapes,
)

COST_COLUMNS = (
    "build s: first build; MiB: peak memory; letters: A best, C lowest; "
    "=: about as good as the advised arm"
)
#: What the columns of the ranking mean, by the unit of the speed.
COLUMNS = {
    unit: (
        "speed-up: compared round by round, geometric mean over the batch sizes; "
        f"{speed}; {COST_COLUMNS}"
    )
    for unit, speed in (
        ("ms", "ms: typical call, that of the baseline over the speed-up"),
        ("tok/s", "tok/s: tokens generated per second, all texts of a batch"),
    )
}
#: The same for servers, which have no batch sizes.
SERVED_COLUMNS = f"speed-up: ratio of the sustained request rates; {COST_COLUMNS}"
#: The same for figures that were published.
PUBLISHED_COLUMNS = (
    "speed-up: as published, over PyTorch eager, geometric mean over the batch sizes; "
    "-: not published; letters: A best, C lowest"
)


def render(answer: Answer) -> str:
    """Return the whole report as plain characters without markup."""
    blocks = [
        [
            *answer_lines(answer),
            *measured_line(answer),
        ],
        ranking(answer),
        *(_table_lines(table) for table in parts.tables(answer)),
        [
            *(
                line
                for section in parts.sections(answer)
                for line in _indented(section.title, section.lines)
            ),
            _footer(answer),
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def measured_line(answer: Answer) -> list[str]:
    """Return the question in one line: task, precision, shapes, weights and budget."""
    question = answer.question
    if answer.run_id == PUBLISHED:
        return []
    missing = unmeasured_shapes(answer)
    timed = [shape for shape in question.shapes if shape not in missing]
    shapes = (
        describe_load(question.load)
        if question.load is not None
        else describe_shapes(answer, timed or question.shapes) + describe_inputs(answer)
    )
    absent = f" Not measured: {describe_shapes(answer, missing)}." if timed and missing else ""
    weights = ", random weights" if has_random_weights(question.model) else ""
    precision = "the model's own precision" if question.dtype == "native" else question.dtype
    line = f"{question.task}, {precision}, {shapes}{weights}"
    return [
        f"Measured: {line}; budget {question.budget.name}, {answer.created[:10]}.{absent}",
        *(f"Inputs: {text}." for _, text in input_facts(answer)),
    ]


def ranking(answer: Answer) -> list[str]:
    """Return the table of the arms with a score, best first."""
    rows = ranking_rows(answer, has_intervals=False)
    if not rows:
        return []
    table = plain_table(rows, text_columns={1})
    if answer.run_id == PUBLISHED:
        return [*table, PUBLISHED_COLUMNS]
    if answer.results.serving is not None:
        return [*table, SERVED_COLUMNS]
    return [*table, COLUMNS[speed_unit(answer)], LEGEND]


def _table_lines(table: Table) -> list[str]:
    return _indented(table.title, [*plain_table(table.rows, table.text_columns), *table.notes])


def _indented(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)]


def _footer(answer: Answer) -> str:
    source = "Published figures" if answer.run_id == PUBLISHED else f"Run {answer.run_id}"
    command = answer.rerun_command or f"p3-advisor show {answer.run_id} --json"
    return f"{source}; letters: A best, C lowest; {command} prints every figure with its source."
