"""What the screens that list stored runs share: the runs, their answers, and their cells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import ClassVar

import msgspec
from textual.binding import BindingType

from advisor.domain.answer import AnswerSummary
from advisor.domain.text import MISSING, format_speedup
from advisor.store.runs import GOING_ON, HistoryEntry, RunStatus
from advisor.store.store import Store
from advisor.tui import panels
from advisor.tui.advisor_screen import AdvisorScreen
from advisor.tui.table import Column, Table
from advisor.tui.widgets import bind

#: Most rows of a list, and most answers that are read for it.
MOST_RUNS = 500
OPEN_MARK = " (open)"
BUSY_MARK = " (busy)"
STOPPED_MARK = " (stopped)"
COLUMNS = (
    Column("mark", "", 1),
    Column("model", "Model", 12, most=40, is_name=True),
    Column("answer", "Answer", 27, most=50, is_name=True, terms=("workflow", "arm")),
    Column("device", "Device", 11, most=30, is_name=True),
    Column("speed", "Speed", 6, shown_from=72, is_numeric=True, terms=("speed-up", "baseline")),
    Column("trust", "Trust", 5, shown_from=72, terms=("trust",)),
    Column("age", "Age", 10, shown_from=72),
)
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400, 3600, 60


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    entry: HistoryEntry
    state: RunStatus


def list_items(store: Store, most_runs: int | None = None) -> list[StoredItem]:
    """Return the newest runs, newest first; create nothing in an empty store."""
    entries = [] if store.is_empty() else store.history()
    return [StoredItem(entry=entry, state=store.state_of(entry)) for entry in entries[:most_runs]]


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


class RunsScreen(AdvisorScreen):
    """Lists stored runs, and then their answers, as they are read in the background."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("r", "resume", "Resume", "resume the run under the cursor")
    ]

    #: None before they were read.
    items: list[StoredItem] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._summaries: dict[str, AnswerSummary] = {}

    def list_runs(self, store: Store) -> list[StoredItem]:
        """Return the runs to show; called in a thread."""
        return list_items(store)

    def read_runs(self) -> None:
        store = self.app.context.store
        kind = f"{type(self).__name__} runs"
        self.app.background.start(kind, lambda: self.list_runs(store), self._show_items)

    def _show_items(self, items: list[StoredItem]) -> None:
        self.items = items
        self.refresh_bindings()
        self.draw()
        ended = {item.entry.run_id: item.entry for item in items if item.state not in GOING_ON}
        # A run that was resumed will have another answer.
        self._summaries = {name: each for name, each in self._summaries.items() if name in ended}
        unknown = [entry for name, entry in ended.items() if name not in self._summaries]
        if any(entry.finished or entry.measured for entry in unknown):
            store = self.app.context.store

            def read() -> dict[str, AnswerSummary]:
                from advisor.report import answer_files

                return answer_files.read_summaries(store, unknown[:MOST_RUNS])

            self.app.background.start(f"{type(self).__name__} answers", read, self._show_summaries)

    def _show_summaries(self, summaries: dict[str, AnswerSummary]) -> None:
        self._summaries |= summaries
        self.draw()

    def rows(self, marks: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Return the cells of each run by its id; `marks` are by id."""
        now, rows = self.app.context.now(), {}
        for item in (self.items or ())[:MOST_RUNS]:
            run_id = item.entry.run_id
            cells = list_cells(item, self._summaries.get(run_id), now)
            rows[run_id] = {"mark": marks.get(run_id, ""), **cells}
        return rows

    def item_at_cursor(self) -> StoredItem | None:
        run_id = self.query_one(Table).key_at_cursor()
        return next((item for item in self.items or () if item.entry.run_id == run_id), None)

    def refusal_of(self, action: str) -> str:
        item = self.item_at_cursor() if action == "resume" else None
        is_possible = action != "resume" or (item is not None and item.state == "stopped")
        return "" if is_possible else "only a stopped run can be resumed"

    def action_resume(self) -> None:
        self.app.run_controller.resume(self.query_one(Table).key_at_cursor() or "")
