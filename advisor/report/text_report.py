"""Render a run as plain text for a terminal: the instruction, how far to trust it, the figures."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.answer import PUBLISHED, Answer
from advisor.domain.model import has_random_weights
from advisor.domain.results import ApplicationPortability, Platform
from advisor.report import serving_tables, shortcomings
from advisor.report.accuracy import trade_off_lines
from advisor.report.answer import (
    confidence,
    flip_lines,
    headline,
    stop_notice,
)
from advisor.report.answer_card import length_rows
from advisor.report.formatting import LEGEND, plain_table
from advisor.report.ranking import ranking_rows, speed_unit
from advisor.report.sensitivity import sensitivity, titled
from advisor.report.setup_facts import (
    describe_inputs,
    describe_load,
    describe_shapes,
    input_facts,
    unmeasured_shapes,
)
from advisor.report.shortcomings import partly_used, unranked
from advisor.report.text_generation import generation_lines
from advisor.system.number_format import (
    format_number,
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
MIX = "The speed-up of an arm is the geometric mean over these lines, weighted by the shares."
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
            headline(answer),
            *stop_notice(answer),
            *confidence(answer),
            *measured_line(answer),
        ],
        ranking(answer),
        by_length(answer),
        trade_off_lines(answer),
        generation_lines(answer),
        *serving_tables_of(answer),
        shortcomings.new_shape_lines(answer),
        partly_used(answer),
        unranked(answer),
        portability(answer),
        closing(answer),
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


def by_length(answer: Answer) -> list[str]:
    """Return the best arm at each length and batch size; nothing for a run with one length."""
    rows = length_rows(answer)
    table = plain_table(rows, text_columns={3}) if rows else []
    return ["By length:", *(f"  {line}" for line in table), MIX] if rows else []


def serving_tables_of(answer: Answer) -> list[list[str]]:
    """Return the tables of servers under load; nothing for other tasks."""
    return [
        [f"{title}:", *(f"  {line}" for line in plain_table(rows, text_columns={0}))]
        for title, rows in serving_tables.titled_tables(answer)
    ]


def portability(answer: Answer) -> list[str]:
    """Return the table of the performance portability over the platforms."""
    found = answer.results.portability
    if found is None:
        return []
    names = [
        f"{platform.name} (run {platform.run}, {platform.created[:10]})"
        for platform in found.platforms
    ]
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    head = ["application", *numbers, "portability", "of peak", "same code"]
    rows = [_portability_row(entry, found.platforms) for entry in found.applications]
    legend = ", ".join(f"{number} {name}" for number, name in zip(numbers, names, strict=True))
    title = (
        "Performance portability: the harmonic mean over the platforms of each speed divided by "
        "the fastest workflow's there; 0 if a platform cannot run it:"
    )
    return [
        title,
        *(f"  {line}" for line in plain_table([head, *rows], text_columns={0})),
        f"  {legend}",
    ]


def _portability_row(entry: ApplicationPortability, platforms: Sequence[Platform]) -> list[str]:
    values = [
        *(entry.efficiencies[platform.name] for platform in platforms),
        entry.performance_portability,
        entry.architectural_portability,
        entry.code_convergence,
    ]
    return [entry.application, *(format_number(value, decimals=2) for value in values)]


def closing(answer: Answer) -> list[str]:
    """Return the reasons, the sensitivity, and the command that prints every figure."""
    advice = answer.recommendation
    lines = []
    if advice is not None:
        lines += titled("Why:", advice.reasons)
        lines += titled("What would change the answer:", flip_lines(answer))
        lines += sensitivity(advice)
        lines += titled("Why trust is not higher:", advice.trust_reasons)
    return [*lines, _footer(answer)]


def _footer(answer: Answer) -> str:
    source = "Published figures" if answer.run_id == PUBLISHED else f"Run {answer.run_id}"
    command = answer.rerun_command or f"p3-advisor show {answer.run_id} --json"
    return f"{source}; letters: A best, C lowest; {command} prints every figure with its source."
