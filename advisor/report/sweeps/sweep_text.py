"""Render a sweep as plain text and as Markdown: the answer for the mix, then each length."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain.answer import Problem
from advisor.report.formatting.phrases import format_lengths, length_unit
from advisor.report.formatting.tabular import markdown_table, plain_table
from advisor.report.markdown import escape
from advisor.report.sections.answer import UNFIT_NOTICE
from advisor.report.sections.ranking_cells import COST_HEADS, cost_cells, rank_cell, score_cell
from advisor.report.sweeps.missing_arms import MissingAt
from advisor.report.sweeps.sweep_document import LengthEntry, SweepDocument
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_share,
    format_speedup,
)


class Table(NamedTuple):
    """A table with a title, and the lines below it."""

    title: str
    #: The head and the rows.
    rows: list[list[str]]
    #: Numbers of the columns that are text.
    text_columns: set[int]
    notes: Sequence[str] = ()


def render(document: SweepDocument) -> str:
    """Return the whole report as plain characters without markup."""
    blocks = [
        answer(document),
        *(_text_block(table) for table in tables(document)),
        notes(document),
        [footer(document)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def render_markdown(document: SweepDocument) -> str:
    """Return the report for a pull request."""
    first, *others = answer(document)
    blocks = [
        [f"## {escape(first)}"],
        [f"{escape(line)}  " for line in others],
        *(_markdown_block(table) for table in tables(document)),
        [f"- {escape(line)}" for line in notes(document)],
        [escape(footer(document))],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _text_block(table: Table) -> list[str]:
    lines = [*plain_table(table.rows, text_columns=table.text_columns), *table.notes]
    return [f"{table.title}:", *(f"  {line}" for line in lines)]


def _markdown_block(table: Table) -> list[str]:
    head, *body = [[escape(cell) for cell in row] for row in table.rows]
    lines = markdown_table(head, body, text_columns=table.text_columns)
    notes = [f"- {escape(line)}" for line in table.notes]
    return [f"### {escape(table.title)}", "", *lines, *(["", *notes] if notes else [])]


def answer(document: SweepDocument) -> list[str]:
    """Return the headline of the mix, or why there is none, and what the mix is."""
    mix, problem, advice = document.mix_answer, document.problem, document.recommendation
    if mix is None or advice is None:
        what = problem.what if problem else "nothing was decided"
        return [
            mix.headline[0].text if mix else f"No recommendation for {document.model}: {what}",
            *([f"Next: {problem.next_step}"] if problem else []),
            mix_line(document),
        ]
    why = f": {'; '.join(advice.trust_reasons)}" if advice.trust_reasons else ""
    headline = [line.text for line in mix.headline]
    return [*headline, f"Trust: {advice.trust} (A best, D lowest){why}.", mix_line(document)]


def mix_line(document: SweepDocument) -> str:
    """Return the shares of the mix, and what its speed-up is."""
    return f"Mix of lengths: {shares(document)}. Its speed-up is the weighted geometric mean."


def shares(document: SweepDocument) -> str:
    """Return the lengths of the mix with their shares."""
    return ", ".join(
        f"{format_lengths(each.lengths, document.task)} {format_share(each.share, decimals=None)}"
        for each in document.lengths
        if each.share > 0
    )


def tables(document: SweepDocument) -> list[Table]:
    """Return the advice by batch size and length, and the arms of the mix."""
    return [table for table in (length_table(document), mix_table(document)) if len(table.rows) > 1]


def length_table(document: SweepDocument) -> Table:
    """Return a row for each length with the best arm by score at each batch size."""
    sizes = document.batch_sizes
    head = [
        length_unit(document.task),
        "share",
        *(f"best @{size}" for size in sizes),
        "decision",
        "trust",
        "run",
    ]
    rows = [_length_row(each, document) for each in document.lengths]
    title = "Best by length and batch size, with the speed-up over the baseline"
    return Table(title, [head, *rows], set(range(2, len(head))), missing_lines(document))


def missing_lines(document: SweepDocument) -> list[str]:
    """Return a line for each arm without a measurement at some lengths, with the reasons."""
    left_out = {each.arm for each in document.left_out}
    lines = []
    for each in document.missing:
        names_by_reason: dict[str, list[str]] = {}
        for one in each.missing:
            name = format_lengths(one.lengths, document.task)
            names_by_reason.setdefault(missing_reason(one), []).append(name)
        reasons = [f"at {', '.join(names)}: {why}" for why, names in names_by_reason.items()]
        mix = "; the mix does not count it" if each.arm in left_out else ""
        lines.append(f"{each.arm}: {'; '.join(reasons)}{mix}")
    return lines


def missing_reason(missing: MissingAt) -> str:
    """Return the status of an arm at a length where it has no measurement, and the reason."""
    return ", ".join(filter(None, (missing.status, missing.reason)))


def _length_row(entry: LengthEntry, document: SweepDocument) -> list[str]:
    cells = {cell.batch_size: cell for cell in entry.cells}
    best = [
        f"{cells[size].arm} {format_interval(cells[size].speedup)}" if size in cells else MISSING
        for size in document.batch_sizes
    ]
    return [
        format_lengths(entry.lengths, document.task),
        format_share(entry.share, decimals=None),
        *best,
        _decision(entry),
        entry.answer.trust or MISSING,
        entry.run_id or MISSING,
    ]


def _decision(entry: LengthEntry) -> str:
    """Return the decision at a length, or why there is none."""
    problem = entry.answer.problem
    return entry.answer.decision_word or (problem.name if problem else "not measured")


def mix_table(document: SweepDocument) -> Table:
    """Return a row for each arm of the mix, with its speed-up at each length."""
    names = [format_lengths(each.lengths, document.task) for each in document.lengths]
    head = ["#", "arm", "mix", *names, *COST_HEADS, "score"]
    speedups = {
        (curve.arm, point.lengths): point.speedup
        for curve in document.curves
        for point in curve.points
    }
    rows = [
        [
            rank_cell(arm.scored),
            arm.arm,
            format_speedup(arm.speedup),
            *(format_speedup(speedups.get((arm.arm, each.lengths))) for each in document.lengths),
            *cost_cells(arm.measured),
            score_cell(arm.scored),
        ]
        for arm in document.ranked
    ]
    title = "Arms of the mix, with the speed-up by length and the worst of the other figures"
    return Table(title, [head, *rows], {1})


def notes(document: SweepDocument) -> list[str]:
    """Return what limits the figures: plans, answers, an unfit machine and failed constraints."""
    limited = [limit_note(each, document) for each in document.lengths if each.limited_to]
    fails = [
        f"A constraint excludes {arm.arm} (!): {'; '.join(arm.scored.failed_constraints)}"
        for arm in document.ranked
        if arm.scored.failures
    ]
    return [*limited, *_problems(document), *_unfit_notes(document), *fails]


def _unfit_notes(document: SweepDocument) -> list[str]:
    """Return a line with the lengths whose answer is from an unfit machine."""
    unfit = [
        format_lengths(each.lengths, document.task)
        for each in document.lengths
        if each.machine_unfit and each.answer.arm
    ]
    return [f"At {', '.join(unfit)}: {UNFIT_NOTICE}"] if unfit else []


def limit_note(entry: LengthEntry, document: SweepDocument) -> str:
    """Return to which workflows the plan of a length was limited, and why."""
    name = functools.partial(format_lengths, task=document.task)
    return (
        f"At {name(entry.lengths)} only {', '.join(entry.limited_to)} and the baseline were "
        f"planned: {' and '.join(map(name, entry.between))} clearly have the same answer."
    )


def _problems(document: SweepDocument) -> list[str]:
    """Return why lengths have no answer, each reason once with its lengths."""
    lengths_by_problem: dict[Problem, list[str]] = {}
    for each in document.lengths:
        if each.answer.problem:
            name = format_lengths(each.lengths, document.task)
            lengths_by_problem.setdefault(each.answer.problem, []).append(name)
    return [
        f"At {', '.join(names)}: {problem.what}; next: {problem.next_step}"
        for problem, names in lengths_by_problem.items()
    ]


def footer(document: SweepDocument) -> str:
    """Return the sweep's id and the command that prints every figure."""
    more = (
        "" if document.finished else f"; p3-advisor resume {document.sweep_id} measures the others"
    )
    return (
        f"Sweep {document.sweep_id}{more}; p3-advisor show {document.sweep_id} --json prints its "
        "document, p3-advisor show RUN the figures of one length."
    )
