"""What the lists on Home and in the history show: stored runs, and examples."""

from __future__ import annotations

import datetime as dt
import functools
import pathlib

import msgspec

from advisor.ask.rubric_files import rubric_directory
from advisor.domain.answer import Answer, AnswerSummary
from advisor.store.runs import HistoryEntry, Run, RunStatus, state_of
from advisor.store.store import Store
from advisor.system.number_format import format_speedup

#: Follows an arm that leads while the decision is open.
OPEN_MARK = " (open)"
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60
#: States of runs that a process works on.
GOING_ON: tuple[RunStatus, ...] = ("running", "paused")


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run with its state."""

    entry: HistoryEntry
    state: RunStatus

    @property
    def is_going_on(self) -> bool:
        return self.state in GOING_ON

    @property
    def progress(self) -> str:
        """Whether a run measured nothing."""
        return "" if self.entry.measured or self.is_going_on else "no measurement"


def list_items(store: Store, most_runs: int | None = None) -> list[StoredItem]:
    """Return the newest runs, newest first; create nothing in an empty store."""
    entries = [] if store.is_empty() else store.history()
    return [
        StoredItem(entry=entry, state=state_of(entry, Run(store.run_directory(entry.run_id))))
        for entry in entries[:most_runs]
    ]


@functools.cache
def list_examples() -> dict[pathlib.Path, Answer]:
    """Return the answers that are part of the program by their files, in the order of names."""
    files = sorted((rubric_directory() / "examples").glob("*.json"))
    return {file: msgspec.json.decode(file.read_bytes(), type=Answer) for file in files}


def list_cells(item: StoredItem, summary: AnswerSummary | None, now: dt.datetime) -> dict[str, str]:
    """Return the cells of a run; the summary counts only for a finished one."""
    entry = item.entry
    cells = {
        "model": entry.model,
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
