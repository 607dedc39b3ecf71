"""Cells of the lists of runs on Home and in the history."""

from __future__ import annotations

import datetime as dt

from advisor.domain.answer import AnswerSummary
from advisor.system.number_format import format_speedup
from advisor.tui.run.stored_items import StoredItem

#: Follows an arm that leads while the decision is open.
OPEN_MARK = " (open)"
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60


def list_cells(item: StoredItem, summary: AnswerSummary | None, now: dt.datetime) -> dict[str, str]:
    """Return the cells of a run or sweep; the summary counts only for a finished one."""
    entry = item.entry
    cells = {
        "model": item.model,
        "answer": item.progress,
        "device": entry.device,
        "state": item.state,
        "age": format_age(entry.created, now),
        "id": entry.run_id,
        "note": entry.note,
    }
    if entry.finished and summary is not None:
        cells["answer"] = describe_winner(summary)
        cells["speed"] = format_speedup(summary.speedup) if summary.arm else ""
        cells["trust"] = summary.trust or ""
    return cells


def describe_winner(summary: AnswerSummary) -> str:
    """Return the advised arm, marked if the decision is open; a word if there is none."""
    mark = OPEN_MARK if summary.decision_word == "OPEN" else ""
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
