"""List the stored runs to open, resume, compare, annotate or delete them."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from advisor.tui import panels
from advisor.tui.dialogs import LineDialog, delete_dialog
from advisor.tui.runs import COLUMNS, RunsScreen, format_age
from advisor.tui.table import Column, SelectableTable, Table
from advisor.tui.widgets import bind

PAIR = 2
ROW_ACTIONS = {"mark", "note", "delete", "resume"}
EMPTY_MESSAGE = "No runs yet.  Press n for the questions, or run  p3-advisor --json"
ALL_COLUMNS = (
    *COLUMNS,
    Column("state", "State", 8, shown_from=120),
    Column("id", "Run", 20, shown_from=110, is_name=True),
    Column("note", "Note", 4, most=200, shown_from=110),
)


class HistoryScreen(RunsScreen):
    HELP_TEXT = """\
Enter opens a run: its results, or its progress while it is running. r resumes a stopped run. Space
marks a run, or unmarks it; c compares two marked runs, or the marked run with the one under the
cursor, as p3-advisor compare does. While a run is marked, the other keys wait. t edits the note on
a run, d deletes it; p3-advisor note and delete do the same."""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "mark", "Mark", "mark a run, or unmark it"),
        bind("c", "compare", "Compare", "compare the marked run with the other, or this one"),
        bind("t", "note", "Note", "edit the note on the run under the cursor"),
        bind("d", "delete", "Delete", "delete the run under the cursor, after a confirmation"),
        bind("n", "new", "New"),
    ]

    def __init__(self, marked: str | None = None) -> None:
        super().__init__()
        self._marked = [marked] if marked else []

    def compose_body(self) -> ComposeResult:
        yield Static("", id="empty", markup=False)
        yield SelectableTable(id="runs")
        yield Static("", id="note", markup=False)

    def on_mount(self) -> None:
        question = "Compare with which run?  c chooses it" if self._marked else "History"
        self.set_title(Text(question, "bold"))
        self.query_one(Table).focus()
        self.read_runs()

    def refusal_of(self, action: str) -> str:
        if action == "compare":
            return "" if self._find_pair() else "space marks a run; then choose another one"
        if self._marked and action in {*ROW_ACTIONS, "new"} - {"mark"}:
            return "not while a run is marked; space unmarks it"
        is_lost = action in ROW_ACTIONS and self.item_at_cursor() is None
        return super().refusal_of(action) or ("there is no run" if is_lost else "")

    def draw(self) -> None:
        if self.items is None or not self.is_attached:
            return
        marks = dict(zip(self._marked, "AB", strict=False))
        self.query_one(Table).fill(ALL_COLUMNS, self.rows(marks))
        self.query_one("#empty", Static).update("" if self.items else EMPTY_MESSAGE)
        self.on_data_table_row_highlighted()

    def on_data_table_row_highlighted(self) -> None:
        item = self.item_at_cursor()
        parts = []
        if item is not None:
            age = format_age(item.entry.created, self.app.context.now())
            note = panels.printable(item.entry.note, 200)
            parts = [f"Run {item.entry.run_id}", age, f"Note: {note}" if note else ""]
        self.query_one("#note", Static).update("   ".join(filter(None, parts)), layout=False)
        self.refresh_bindings()

    def on_data_table_row_selected(self) -> None:
        self.app.run_controller.open(self.query_one(Table).key_at_cursor() or "")

    def action_mark(self) -> None:
        """Mark the run under the cursor, or unmark it; a third mark removes the oldest."""
        run_id = self.query_one(Table).key_at_cursor()
        if run_id in self._marked:
            self._marked.remove(run_id)
        elif run_id is not None:
            self._marked = [*self._marked, run_id][-PAIR:]
        self.draw()

    def action_compare(self) -> None:
        self.app.run_in_terminal(["compare", *self._find_pair()])

    def _find_pair(self) -> list[str]:
        """Return the two runs to compare, the older one first; empty for no pair."""
        item = self.item_at_cursor()
        chosen = list(self._marked)
        if len(chosen) < PAIR and item is not None:
            chosen.append(item.entry.run_id)
        created = {item.entry.run_id: item.entry.created for item in self.items or ()}
        chosen.sort(key=lambda run_id: created.get(run_id, ""))
        return chosen if len(set(chosen)) == PAIR else []

    def action_note(self) -> None:
        item = self.item_at_cursor()
        if item is None:
            return

        def write(note: str) -> str:
            with self.app.showing_errors():
                self.app.context.store.find(item.entry.run_id).write_note(note)
            self.read_runs()
            return ""

        lead = f"Note on run {item.entry.run_id}; an empty note is removed."
        placeholder = "for example: before the driver was updated"
        self.app.push_screen(LineDialog(lead, item.entry.note, write, placeholder))

    def action_delete(self) -> None:
        item = self.item_at_cursor()
        if item is None:
            return

        def delete() -> None:
            self._marked = [run_id for run_id in self._marked if run_id != item.entry.run_id]
            try:
                self.app.context.store.delete(item.entry.run_id)
            finally:
                self.read_runs()

        self.app.confirm(delete_dialog(item.entry), delete)

    def action_new(self) -> None:
        self.app.action_new_question()
