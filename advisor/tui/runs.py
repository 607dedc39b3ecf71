"""The stored runs and their answers as rows of the first screen."""

from __future__ import annotations

import datetime as dt

import msgspec

from advisor.domain.answer import AnswerSummary
from advisor.domain.text import MISSING, format_speedup
from advisor.store.runs import GOING_ON, HistoryEntry, RunStatus
from advisor.store.store import Store
from advisor.tui import panels
from advisor.tui.table import Column

#: Most rows of the list.
MOST_RUNS = 500
OPEN_MARK = " (open)"
BUSY_MARK = " (busy)"
STOPPED_MARK = " (stopped)"
COLUMNS = (
    Column("mark", "", 1),
    Column("model", "Model", 12, most=40, is_name=True),
    Column("answer", "Answer", 27, most=50, is_name=True),
    Column("device", "Device", 11, most=30, is_name=True),
    Column("speed", "Speed", 6, shown_from=72, is_numeric=True),
    Column("trust", "Trust", 5, shown_from=72),
    Column("age", "Age", 10, shown_from=72),
    Column("state", "State", 8, shown_from=120),
    Column("id", "Run", 20, shown_from=110, is_name=True),
    Column("note", "Note", 4, most=200, shown_from=110),
)
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    entry: HistoryEntry
    state: RunStatus


def list_items(store: Store) -> list[StoredItem]:
    """Return those that are going on, then the others, each newest first.

    Nothing is created in an empty store.
    """
    entries = [] if store.is_empty() else store.history()[:MOST_RUNS]
    items = [StoredItem(entry=entry, state=store.state_of(entry)) for entry in entries]
    return sorted(items, key=lambda item: item.state not in GOING_ON)


def list_cells(item: StoredItem, summary: AnswerSummary | None, now: dt.datetime) -> dict[str, str]:
    """Return the cells of a run; without a summary, the state stands for its answer."""
    entry = item.entry
    cells = {
        "model": panels.model_name(entry.model),
        "answer": entry.shortcoming(item.state) or item.state,
        "device": entry.device_name,
        "state": item.state,
        "age": format_age(entry.created, now),
        "id": entry.run_id,
        "note": entry.note,
    }
    if summary is not None and (entry.finished or summary.arm):
        cells["answer"] = f"{describe_winner(summary)}{'' if entry.finished else STOPPED_MARK}"
        speed = format_speedup(summary.speedup) if summary.fit else MISSING
        cells["speed"] = speed if summary.arm else ""
        cells["trust"] = summary.trust or ""
    return cells


def describe_winner(summary: AnswerSummary) -> str:
    mark = "" if summary.fit else BUSY_MARK
    mark = OPEN_MARK if summary.decision_word == "OPEN" else mark
    return f"{summary.arm}{mark}" if summary.arm else "no answer"


def format_age(created: str, now: dt.datetime) -> str:
    """Return how long ago something was created, such as `3 h ago`; empty if not known."""
    try:
        then = dt.datetime.fromisoformat(created)
    except ValueError:
        return ""
    if then.tzinfo is None:
        then = then.replace(tzinfo=now.tzinfo)
    seconds = max((now - then).total_seconds(), 0)
    for unit, name in ((DAY_SECONDS, "d"), (HOUR_SECONDS, "h"), (MINUTE_SECONDS, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"
