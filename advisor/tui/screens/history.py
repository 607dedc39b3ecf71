"""The stored runs: open one, go on with one that stopped, follow one that goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.errors import UserError
from advisor.store import Entry
from advisor.tui import text
from advisor.tui.screens.dialogs import Deleting, Noting
from advisor.tui.screens.filtered import Filtered
from advisor.tui.screens.frame import TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.table import Column, OpeningTable, Table

#: Below this width devices are cut short.
NARROW = 72
EMPTY = "No runs yet.  Press n for the questions, or run  p3-advisor --json"


class History(Filtered):
    """The stored runs."""

    HELP_TEXT = """\
Enter opens a run: its results, or its probes if it still goes on. r resumes one that stopped.
Space marks a run; with two marked, c compares them: what differs between them comes first.
t writes a line about a run, d removes one for good; the same as p3-advisor note and delete.
f shows what the newest fleet has answered, for each model and kind of device."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "resume", "Resume", id="resume"),
        Binding("space", "mark", "Mark", id="mark", tooltip="mark a run, to compare two"),
        Binding("c", "compare", "Compare", id="compare", tooltip="compare the two marked runs"),
        Binding(
            "t", "note", "Note", id="note", tooltip="write a line about the run under the cursor"
        ),
        Binding(
            "d",
            "delete",
            "Delete",
            id="delete",
            tooltip="remove the run under the cursor for good, after asking",
        ),
        Filtered.FILTER,
        Binding("n", "app.ask_anew", "New", id="new"),
        Binding(
            "f", "app.fleet", "Fleet", id="fleet", tooltip="what the newest fleet has answered"
        ),
        Binding("escape", "back", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, marked: str | None = None) -> None:
        super().__init__()
        self._marked = [marked] if marked else []

    def compose(self) -> ComposeResult:
        """Make the table."""
        yield TopLine()
        yield self.compose_filter()
        yield Static("", id="empty", markup=False)
        yield OpeningTable(id="runs")
        yield Static("", id="note", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """List the runs."""
        self.query_one(TopLine).tell(Text("History"), self.advisor.run_words())
        self._entries: list[Entry] | None = None
        self.query_one(Table).focus()
        self._read()

    def _read(self) -> None:
        self.advisor.background.do("history", self.advisor.world.store.history, self._take)

    def _take(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.list_rows()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self.list_rows)

    def list_rows(self) -> None:
        """Fill the table with what the filter leaves."""
        if self._entries is None or not self.is_attached:
            return
        table = self.query_one(Table)
        device = 10 if self.size.width < NARROW else 18
        note = max(self.size.width - 92, 0)
        name = max(self.size.width - 49 - device - (note + 2 if note else 0), 8)
        columns = [
            Column("mark", "", 1),
            Column("id", "Run", 20),
            Column("model", "Model", name),
            Column("device", "Device", device),
        ]
        table.lay_out(
            [
                *columns,
                Column("state", "State", 8),
                *([Column("note", "Note", note)] if note else []),
            ]
        )
        shown = [
            entry
            for entry in self._entries
            if self.wants(entry.run_id, entry.model, entry.device, entry.note)
        ]
        table.fill({entry.run_id: self._row(entry, name, device) for entry in shown[:500]})
        self.query_one("#empty", Static).update(
            "" if shown else EMPTY if not self._entries else "nothing fits the filter"
        )
        self._tell_note()

    def _tell_note(self) -> None:
        """Show the note of the run under the cursor, which has a column on wide terminals only."""
        entry = self._entry()
        note = text.plain(entry.note, 200) if entry is not None else ""
        self.query_one("#note", Static).update(
            Text(f"Note: {note}" if note else "", no_wrap=True), layout=False
        )

    def _entry(self) -> Entry | None:
        key = self.query_one(Table).key_at_cursor()
        return next((entry for entry in self._entries or () if entry.run_id == key), None)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Tell the run's note."""
        event.stop()
        self._tell_note()

    def _row(self, entry: Entry, width: int, device: int) -> dict[str, str]:
        model = text.squeeze(text.plain(entry.model), width)
        return {
            "mark": "AB"[self._marked.index(entry.run_id)] if entry.run_id in self._marked else "",
            "id": entry.run_id,
            "model": model,
            "device": text.plain(entry.device, device),
            "state": "imported" if entry.imported else "finished" if entry.finished else "stopped",
            "note": text.plain(entry.note, 200),
        }

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run."""
        event.stop()
        self.advisor.runs.open(str(event.row_key.value))

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take the mark away; of more than two the oldest mark goes."""
        key = self.query_one(Table).key_at_cursor()
        if key in self._marked:
            self._marked.remove(key)
        elif key is not None:
            self._marked = [*self._marked, key][-2:]
        self.list_rows()

    def action_compare(self) -> None:
        """Compare the marked run with the other marked one, or with the one under the cursor."""
        key = self.query_one(Table).key_at_cursor()
        chosen = (
            self._marked if len(self._marked) == 2 else [*self._marked, *([key] if key else [])]  # noqa: PLR2004 - a pair
        )
        if len(set(chosen)) == 2:  # noqa: PLR2004 - a pair
            self.advisor.runs.compare(chosen[0], chosen[1])
        else:
            self.notify("mark two runs with space, then c compares them", markup=False)

    def action_note(self) -> None:
        """Write a line about the run under the cursor."""
        entry = self._entry()
        if entry is None:
            return

        def write(words: str | None) -> None:
            if words is not None:
                self._change(lambda: self.advisor.world.store.find(entry.run_id).write_note(words))

        self.app.push_screen(Noting(entry.run_id, entry.note), write)

    def action_delete(self) -> None:
        """Remove the run under the cursor, after asking."""
        entry = self._entry()
        if entry is None:
            return

        def decided(yes: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if yes:
                self._marked = [run_id for run_id in self._marked if run_id != entry.run_id]
                self._change(lambda: self.advisor.world.store.delete(entry.run_id))

        self.app.push_screen(Deleting(entry), decided)

    def _change(self, action: Callable[[], object]) -> None:
        """Change what is stored, and list it again."""
        try:
            action()
        except UserError as problem:
            self.advisor.tell_problem(problem)
        self._read()

    def action_resume(self) -> None:
        """Go on with the run under the cursor."""
        key = self.query_one(Table).key_at_cursor()
        if key is not None:
            self.advisor.runs.resume(key)
