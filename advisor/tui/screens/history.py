"""List the stored runs and sweeps to open, resume, compare, annotate or delete them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.domain.answer import AnswerSummary
from advisor.errors import UserError
from advisor.pipeline.answer_summaries import read_summaries
from advisor.report.opening import open_answer
from advisor.store.store import Store
from advisor.tui import run_opener
from advisor.tui.dialogs.questions import DeleteDialog, NoteDialog
from advisor.tui.rendering import text
from advisor.tui.rendering.list_cells import format_age
from advisor.tui.run.comparison import compare_runs
from advisor.tui.run.stored_items import StoredItem, list_items
from advisor.tui.screens.advisor_screen import TitleBar
from advisor.tui.screens.compare import CompareScreen
from advisor.tui.screens.filtered_screen import FilteredScreen
from advisor.tui.screens.history_table import (
    SecondRunTable,
    history_cells,
    history_columns,
)
from advisor.tui.widgets.key_footer import KeyFooter
from advisor.tui.widgets.table import SelectableTable, Table

COMPARE_TITLE = "Compare with which run?  enter chooses it, esc goes back"
MAX_ROWS = 500
#: Number of runs that are compared.
PAIR = 2
#: Actions on the row under the cursor, and those of them that need a run.
ROW_ACTIONS, RUN_ACTIONS = {"mark", "note", "delete", "resume"}, {"mark", "note"}
#: Actions that concern no row.
OTHER_ACTIONS = {"new", "fleet"}
EMPTY_MESSAGE = "No runs yet.  Press n for the questions, or run  p3-advisor --json"


class HistoryScreen(FilteredScreen):
    """The stored runs."""

    HELP_TEXT = """\
Enter opens a run: its results, or its progress while it is running. A sweep has several lengths:
enter shows the answer for their mix and their runs. r resumes a stopped run or sweep. Space marks a
run, or unmarks it; c compares two marked runs, or the marked run with the one under the cursor.
While a run is marked, the other keys wait. t edits the note on a run, d deletes a run or a sweep;
p3-advisor note and delete do the same. f shows the answers of the newest fleet, for each model and
kind of device."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "resume", "Resume", id="resume"),
        Binding("space", "mark", "Mark", id="mark", tooltip="mark a run, or unmark it"),
        Binding(
            "c",
            "compare",
            "Compare",
            id="compare",
            tooltip="compare the marked run with the other, or with the one under the cursor",
        ),
        Binding(
            "t", "note", "Note", id="note", tooltip="edit the note on the run under the cursor"
        ),
        Binding(
            "d",
            "delete",
            "Delete",
            id="delete",
            tooltip="delete the row under the cursor, after a confirmation",
        ),
        FilteredScreen.FILTER,
        Binding("n", "new", "New", id="new"),
        Binding("f", "fleet", "Fleet", id="fleet", tooltip="the answers of the newest fleet"),
        Binding("escape", "back", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, marked: str | None = None) -> None:
        super().__init__()
        self._marked = [marked] if marked else []
        #: Whether the screen asks for the second run of a comparison.
        self._chooses_second = marked is not None
        self._items: list[StoredItem] | None = None
        self._has_fleet = False
        self._summaries: dict[str, AnswerSummary] = {}

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield self.compose_filter()
        yield Static("", id="empty", markup=False)
        yield (SecondRunTable if self._chooses_second else SelectableTable)(id="runs")
        yield Static("", id="note", markup=False)
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(TitleBar).set_text(
            Text(COMPARE_TITLE if self._chooses_second else "History", "bold")
        )
        self.query_one(Table).focus()
        self._has_fleet = bool(self.app.context.store.fleets.ids())
        self._read_items()

    def _read_items(self) -> None:
        store = self.app.context.store

        def read() -> list[StoredItem]:
            items = list_items(store)
            # A sweep has no figures of its own that could be compared.
            return [item for item in items if not (item.is_sweep and self._chooses_second)]

        self.app.background.start("history", read, self._show_items)

    def _show_items(self, items: list[StoredItem]) -> None:
        self._items = items
        self.list_rows()
        store = self.app.context.store
        entries = [item.entry for item in items if item.item_id not in self._summaries]
        self.app.background.start(
            "answers", lambda: read_summaries(store, entries[:MAX_ROWS]), self._show_summaries
        )

    def _show_summaries(self, summaries: dict[str, AnswerSummary]) -> None:
        self._summaries |= summaries
        self.list_rows()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Offer what has an effect on the marked runs or on the row under the cursor."""
        if self._chooses_second:
            return action not in {*ROW_ACTIONS, *OTHER_ACTIONS, "compare"}
        if action == "compare":
            return self._find_pair() is not None
        if self._marked and action in {*ROW_ACTIONS, *OTHER_ACTIONS} - {"mark"}:
            return False
        if action == "fleet":
            return self._has_fleet
        return action not in ROW_ACTIONS or self._suits_row(action)

    def _suits_row(self, action: str) -> bool:
        """Return whether the action is possible for the row under the cursor."""
        item = self._item_at_cursor() if self.is_mounted else None
        if item is None:
            return False
        if action == "resume":
            return item.state == "stopped"
        return not (action in RUN_ACTIONS and item.is_sweep)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.list_rows)

    def list_rows(self) -> None:
        """Fill the table with the runs that pass the filter."""
        if self._items is None or not self.is_attached:
            return
        shown = [
            item
            for item in self._items
            if self.passes_filter(item.item_id, item.model, item.entry.device, item.entry.note)
        ]
        now = self.app.context.now()
        self.query_one(Table).fill(
            history_columns(self.size.width),
            {
                item.item_id: history_cells(item, self._summary_of(item), self._mark_of(item), now)
                for item in shown[:MAX_ROWS]
            },
        )
        message = "" if shown else "no run passes the filter" if self._items else EMPTY_MESSAGE
        self.query_one("#empty", Static).update(message)
        self._draw_note()
        self.refresh_bindings()

    def _summary_of(self, item: StoredItem) -> AnswerSummary | None:
        return self._summaries.get(item.item_id) if item.entry.finished else None

    def _mark_of(self, item: StoredItem) -> str:
        return "AB"[self._marked.index(item.item_id)] if item.item_id in self._marked else ""

    def _draw_note(self) -> None:
        """Show the id, the age and the note of the row under the cursor."""
        item = self._item_at_cursor()
        parts = []
        if item is not None:
            entry = item.entry
            age = format_age(entry.created, self.app.context.now())
            note = text.printable(entry.note, 200)
            name = f"Sweep {item.item_id}" if item.is_sweep else f"Run {item.item_id}"
            sweep = f"of {item.sweep_id}" if item.sweep_id else ""
            lengths = f"{item.lengths} lengths" if item.is_sweep else sweep
            parts = [name, lengths, age, f"Note: {note}" if note else ""]
        self.query_one("#note", Static).update(
            Text("   ".join(filter(None, parts)), no_wrap=True), layout=False
        )

    def _item_at_cursor(self) -> StoredItem | None:
        item_id = self.query_one(Table).key_at_cursor()
        return next((item for item in self._items or () if item.item_id == item_id), None)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        event.stop()
        self._draw_note()
        self.refresh_bindings()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run, or compare it where the second run of a comparison is asked for."""
        event.stop()
        if self._chooses_second:
            self.action_compare()
        else:
            run_opener.open_stored(self.app, str(event.row_key.value))

    def action_mark(self) -> None:
        """Mark the run under the cursor, or unmark it; a third mark removes the oldest."""
        run_id = self.query_one(Table).key_at_cursor()
        if run_id in self._marked:
            self._marked.remove(run_id)
        elif run_id is not None:
            self._marked = [*self._marked, run_id][-PAIR:]
        self.list_rows()

    def action_compare(self) -> None:
        """Compare the two marked runs, or the marked run with the one under the cursor."""
        pair, store = self._find_pair(), self.app.context.store
        if pair is None:
            self.notify("this is the marked run: choose another one", markup=False)
            return
        self.app.background.start(
            "compare",
            lambda: compare_runs(*(open_answer(run_id, store) for run_id in pair)),
            lambda found: self.app.push_screen(CompareScreen(found)),
        )

    def _find_pair(self) -> tuple[str, str] | None:
        """Return the marked runs, or the marked one and the one at the cursor; None for no pair."""
        item = self._item_at_cursor() if self.is_mounted else None
        chosen = list(self._marked)
        if len(chosen) < PAIR and item is not None and not item.is_sweep:
            chosen.append(item.item_id)
        if len(set(chosen)) != PAIR:
            return None
        first, second = chosen
        return first, second

    def action_note(self) -> None:
        """Edit the note on the run under the cursor."""
        item = self._item_at_cursor()
        if item is None:
            return

        def write(note: str | None) -> None:
            if note is not None:
                self._change_store(lambda store: store.find(item.item_id).write_note(note))

        self.app.push_screen(NoteDialog(item.item_id, item.entry.note), write)

    def action_delete(self) -> None:
        """Delete the run or sweep under the cursor after a confirmation."""
        item = self._item_at_cursor()
        if item is None:
            return

        def on_answer(confirmed: bool | None) -> None:  # noqa: FBT001 - Textual's callback
            if confirmed:
                self._marked = [run_id for run_id in self._marked if run_id != item.item_id]
                self._change_store(lambda store: _delete(item, store))

        self.app.push_screen(DeleteDialog(item.entry, is_sweep=item.is_sweep), on_answer)

    def _change_store(self, change: Callable[[Store], object]) -> None:
        """Change the store and list the runs again; show why it failed."""
        try:
            change(self.app.context.store)
        except UserError as error:
            self.app.show_error(error)
        self._read_items()

    def action_new(self) -> None:
        """Ask a new question."""
        self.app.action_new_question()

    def action_fleet(self) -> None:
        """Show the answers of the newest fleet."""
        self.app.action_fleet()

    def action_resume(self) -> None:
        """Resume the run or sweep under the cursor."""
        item_id = self.query_one(Table).key_at_cursor()
        if item_id is not None:
            run_opener.resume(self.app, item_id)


def _delete(item: StoredItem, store: Store) -> None:
    if item.is_sweep:
        store.sweeps.delete(item.item_id)
    else:
        store.delete(item.item_id)
