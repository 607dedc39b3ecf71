"""Lay out and sort the ranking of the results; its columns are those of every other output."""

from __future__ import annotations

import math

from advisor.domain.answer import RankedArm
from advisor.report import ranking
from advisor.report.ranking import CRITERION_HEADS
from advisor.tui.answer import RunAnswer
from advisor.tui.widgets.table import Column, Row

SORT_ARROW = "\N{BLACK DOWN-POINTING TRIANGLE}"
#: Cells of the columns that are not as wide as their content.
ARM_WIDTH, MOST_ARM_WIDTH, INTERVAL_WIDTH, MOST_INTERVAL_WIDTH = 16, 40, 16, 60


def sort_names(answer: RunAnswer) -> list[str]:
    """Return the columns that the ranking can be sorted by, the score first."""
    columns = ranking.ranking_columns(answer.document, has_latency=True)
    names = [column.name for column in columns if column.order is not None]
    return sorted(names, key=lambda name: name != "score")


def sort_entries(answer: RunAnswer, sort: str) -> list[RankedArm]:
    """Return the ranked arms in a sort order; arms with equal keys are ordered by rank."""
    columns = ranking.ranking_columns(answer.document, has_latency=True)
    order = next(column.order for column in columns if column.name == sort and column.order)

    def key(arm: RankedArm) -> tuple[float, int]:
        figure = order(arm)
        return math.inf if figure is None else figure, arm.scored.rank

    return sorted(answer.ranked, key=key)


def ranking_table(answer: RunAnswer, sort: str) -> tuple[list[Column], dict[str, Row]]:
    """Return the columns, with an arrow at the sort order, and the cells of each arm by its id."""
    entries = sort_entries(answer, sort)
    shown = ranking.ranking_columns(answer.document, has_latency=True)
    rows: dict[str, Row] = {
        entry.arm: {
            "interval": entry.speedup,
            **{column.name: column.write(entry) for column in shown},
        }
        for entry in entries
    }
    columns = [_column(column, rows, sort) for column in shown]
    columns.insert(
        2, Column("interval", "", INTERVAL_WIDTH, most=MOST_INTERVAL_WIDTH, terms=columns[2].terms)
    )
    return columns, rows


def _column(column: ranking.Column, rows: dict[str, Row], sort: str) -> Column:
    heading = column.head + (SORT_ARROW if column.name == sort else "")
    if column.name == "arm":
        return Column(
            "arm", heading, ARM_WIDTH, most=MOST_ARM_WIDTH, is_name=True, terms=column.terms
        )
    width = max(len(heading), *(len(str(row[column.name])) for row in rows.values()), 0)
    return Column(
        column.name,
        heading,
        width,
        shown_from=column.shown_from,
        is_numeric=column.name not in CRITERION_HEADS,
        terms=column.terms,
    )
