"""The stored runs: open one, go on with one that stopped, follow one that goes on."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from advisor.store import Entry
from advisor.tui import text
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.table import Column, Table

EMPTY = "No runs yet.  Press n for the questions, or run  p3-advisor --json"


class History(Frame):
    """The stored runs."""

    HELP_TEXT = "Enter opens a run: its results, or its probes if it still goes on. r resumes one that stopped."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "resume", "Resume", id="resume"),
        Binding("slash", "filter", "Filter", key_display="/", id="filter"),
        Binding("n", "app.ask_anew", "New", id="new"),
        Binding("escape", "back", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def compose(self) -> ComposeResult:
        """Make the table."""
        yield TopLine()
        yield Input(placeholder="filter", id="filter", compact=True)
        yield Static("", id="empty", markup=False)
        yield Table(id="runs")
        yield self.compose_too_small()
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """List the runs."""
        self.query_one(TopLine).tell(Text("History"), self.advisor.run_words())
        self.query_one("#filter").display = False
        self._entries = self.advisor.world.store.history()
        self._list("")
        self.query_one(Table).focus()

    def _list(self, wanted: str) -> None:
        table = self.query_one(Table)
        name = max(self.size.width - 62, 12)
        table.lay_out(
            [Column("id", "Run", 20), Column("model", "Model", name), Column("device", "Device", 18), Column("state", "State", 10)]
        )
        shown = [entry for entry in self._entries if wanted.lower() in f"{entry.run_id} {entry.model} {entry.device}".lower()]
        table.fill({entry.run_id: self._row(entry, name) for entry in shown[:500]})
        self.query_one("#empty", Static).update("" if shown else EMPTY if not self._entries else "nothing fits the filter")

    def _row(self, entry: Entry, width: int) -> dict[str, str]:
        model = text.squeeze(text.plain(entry.model), width)
        return {
            "id": entry.run_id,
            "model": model,
            "device": text.plain(entry.device, 18),
            "state": "finished" if entry.finished else "stopped",
        }

    def action_filter(self) -> None:
        """Show the line for the filter."""
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter."""
        self._list(event.value.strip())

    def on_input_submitted(self) -> None:
        """Back to the table."""
        self.query_one(Table).focus()

    def action_back(self) -> None:
        """Leave the filter, or the history."""
        line = self.query_one("#filter", Input)
        if line.display:
            line.value, line.display = "", False
            self.query_one(Table).focus()
        else:
            self.app.pop_screen()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run."""
        event.stop()
        self.advisor.runs.open(str(event.row_key.value))

    def action_resume(self) -> None:
        """Go on with the run under the cursor."""
        key = self.query_one(Table).key_at_cursor()
        if key is not None:
            self.advisor.runs.resume(key)
