"""Lay out the table of the stored runs and sweeps."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

from textual.binding import Binding, BindingType

from advisor.domain.answer import AnswerSummary
from advisor.system.number_format import format_speedup
from advisor.tui.rendering.list_cells import describe_winner, format_age
from advisor.tui.run.stored_items import StoredItem
from advisor.tui.widgets.table import Column, SelectableTable

#: Width of the terminal from which a row has the age, the id and the note.
WIDE_WIDTH = 110


class SecondRunTable(SelectableTable):
    """The runs that the marked run can be compared with."""

    HELP = """\
Up and down, or j and k, move; g and G go to the ends; enter compares the marked run with this
row."""
    COMPARE = "Compare"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", COMPARE, id="open")]


def history_columns(width: int) -> list[Column]:
    """Return the columns that fit into a terminal of a width."""
    is_wide = width >= WIDE_WIDTH
    fixed = [
        Column("state", "State", 8),
        Column("speed", "Speed", 6, is_numeric=True, terms=("speed-up", "baseline")),
        Column("trust", "Trust", 5, terms=("trust",)),
        *([Column("age", "Age", 10), Column("id", "Run", 20, is_name=True)] if is_wide else []),
    ]
    rest = width - 4 - sum(column.width + 1 for column in fixed)
    note = max(rest - 90, 0) if is_wide else 0
    rest -= note + 1 if note else 0
    device = rest // 4
    model = rest // 3
    return [
        Column("mark", "", 1),
        Column("model", "Model", model, is_name=True),
        Column("answer", "Answer", rest - device - model - 3, is_name=True),
        Column("device", "Device", device),
        *fixed,
        *([Column("note", "Note", note)] if note else []),
    ]


def history_cells(
    item: StoredItem, summary: AnswerSummary | None, mark: str, now: dt.datetime
) -> dict[str, str]:
    """Return the cells of a run or sweep; only a finished one has a summary.

    `mark` is the letter of a marked run.
    """
    entry = item.entry
    return {
        "mark": mark,
        "id": entry.run_id,
        "model": item.model,
        "answer": describe_winner(summary) if summary else item.progress,
        "speed": format_speedup(summary.speedup) if summary and summary.arm else "",
        "trust": (summary.trust or "") if summary else "",
        "device": entry.device,
        "age": format_age(entry.created, now),
        "state": item.state,
        "note": entry.note,
    }
