"""The first screen: what the program does, this machine, and the stored runs."""

from __future__ import annotations

import datetime as dt
import functools
import os
import pathlib
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from advisor.ask.catalogue_files import catalogue_directory
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.machine import Machine
from advisor.domain.text import GIBIBYTE, MISSING, format_speedup
from advisor.store.runs import ANSWERS, GOING_ON, HistoryEntry, RunStatus
from advisor.store.store import Store
from advisor.tui import panels
from advisor.tui.advisor_screen import AdvisorScreen
from advisor.tui.table import Column, SelectableTable, Table
from advisor.tui.widgets import bind

PURPOSE = (
    "p3-advisor measures the ways to compile and run a PyTorch model on this machine, and"
    " recommends one."
)
TRADE_OFF = (
    "P3 is the trade-off between Performance, Productivity and Portability: no workflow wins all "
    "three, so you say what matters."
)
NEW_ROW = "new"
#: Seconds between two looks at the runs that are going on.
REFRESH_SECONDS = 2.0
STATE_GLYPHS = {
    "running": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "paused": "\N{DOUBLE VERTICAL LINE}",
    "stopped": "\N{BLACK SQUARE}",
    "finished": "\N{CHECK MARK}",
    "imported": "\N{CHECK MARK}",
}
EXAMPLE_GLYPH, MARK_GLYPH = "\N{BLACK STAR}", "\N{BLACK DIAMOND}"
#: Most rows of the list.
MOST_LISTED_RUNS = 500
OPEN_MARK, BUSY_MARK, STOPPED_MARK = " (open)", " (busy)", " (stopped)"
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
    """Return the runs that are going on, then the others, each newest first.

    Nothing is created in an empty store.
    """
    entries = [] if store.is_empty() else store.history()[:MOST_LISTED_RUNS]
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
    return f"{summary.label}{mark if summary.arm else ''}"


def format_age(created: dt.datetime, now: dt.datetime) -> str:
    """Return how long ago something was created, such as `3 h ago`."""
    seconds = max((now - created).total_seconds(), 0)
    for unit, name in ((DAY_SECONDS, "d"), (HOUR_SECONDS, "h"), (MINUTE_SECONDS, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return "just now"


class HomeScreen(AdvisorScreen):
    HELP_TEXT = """\
Enter opens the row under the cursor: a new question, a run that is going on, an answer, or the
recorded run that is part of the program. n asks a new question; ctrl+r measures with the present
answers, at first the built-in model. ctrl+g shows the run that is going on, r resumes a stopped
run. Space marks a run, or unmarks it. While a run is marked, enter and c compare it with the one
under the cursor, as p3-advisor compare does; esc unmarks it. t edits a note, d deletes a run."""
    TERMS = ("P3", "workflow", "run", "trust")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "enter,c", "compare", "Compare", "compare the marked run with the one under the cursor"
        ),
        bind("enter", "open", "Open", "open the row under the cursor"),
        bind("n", "app.new_question", "New", "a new question"),
        bind("ctrl+r", "app.start_now", "Run now", "measure with the present answers"),
        bind("r", "resume", "Resume", "resume the run under the cursor"),
        bind("space", "mark", "Mark", "mark the run to compare, or unmark it"),
        bind("t", "note", "Note", "edit the note on the run under the cursor"),
        bind("d", "delete", "Delete", "delete the run under the cursor, after a confirmation"),
        bind("m", "app.doctor", "Check machine", "check it for problems, in the terminal"),
    ]

    def __init__(self) -> None:
        super().__init__()
        #: The stored runs, and the answers that were read of them.
        self._items: list[StoredItem] = []
        self._summaries: dict[str, AnswerSummary] = {}
        #: The run to compare with another one.
        self._marked: str | None = None

    def compose_body(self) -> ComposeResult:
        yield Static(Text(PURPOSE, "bold"), id="purpose", markup=False)
        yield Static(TRADE_OFF, id="trade-off", markup=False)
        yield Static("", id="machine", markup=False)
        yield SelectableTable(id="runs")
        yield Static("", id="run", markup=False)

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self.draw()
        self.set_interval(REFRESH_SECONDS, self.on_screen_resume)

    def on_screen_resume(self) -> None:
        """Read the runs again: one may have ended or begun meanwhile, also in other programs."""
        if self.is_current:
            self.read_runs()

    def read_runs(self) -> None:
        store = self.app.context.store
        self.app.background.start("runs", lambda: list_items(store), self._show_items)

    def _show_items(self, items: list[StoredItem]) -> None:
        self._items = items
        self.draw()
        ended = {item.entry.run_id: item.entry for item in items if item.state not in GOING_ON}
        # A run that was resumed will have another answer.
        self._summaries = {name: each for name, each in self._summaries.items() if name in ended}
        unknown = [entry for name, entry in ended.items() if name not in self._summaries]
        if any(entry.finished or entry.measured for entry in unknown):
            store = self.app.context.store

            def read() -> dict[str, AnswerSummary]:
                from advisor.report import answer_files

                return {each.run_id: answer_files.read_summary(store, each) for each in unknown}

            self.app.background.start("summaries", read, self._show_summaries)

    def _show_summaries(self, summaries: dict[str, AnswerSummary]) -> None:
        self._summaries |= summaries
        self.draw()

    def draw(self) -> None:
        # A result may arrive before the widgets are there, or while the program ends.
        tables = self.query(Table)
        if not tables:
            return
        self.set_title(Text("Compare with which run?" if self._marked else "Home", "bold"))
        self.query_one("#machine", Static).update(describe_machine(self.app.machine))
        tables.first().fill(COLUMNS, self._rows())
        self.on_data_table_row_highlighted()

    def _rows(self) -> dict[str, dict[str, str]]:
        rows = {NEW_ROW: {"mark": "+", "model": "New question", "answer": "measure a model"}}
        now = self.app.context.now()
        for item in self._items:
            run_id = item.entry.run_id
            glyph = MARK_GLYPH if run_id == self._marked else STATE_GLYPHS[item.state]
            rows[run_id] = {"mark": glyph, **list_cells(item, self._summaries.get(run_id), now)}
        for file, answer in list_examples().items():
            rows[str(file)] = {
                "mark": EXAMPLE_GLYPH,
                "model": answer.question.model.name.rpartition("/")[2],
                "answer": "a recorded example",
                "device": answer.device_name,
            }
        return rows

    def _item_at_cursor(self) -> StoredItem | None:
        run_id = self.query_one(Table).key_at_cursor()
        return next((item for item in self._items if item.entry.run_id == run_id), None)

    @property
    def _entry(self) -> HistoryEntry:
        """The run under the cursor, in actions that need one."""
        item = self._item_at_cursor()
        assert item is not None  # noqa: S101 - `refusal_of` refuses the others
        return item.entry

    def refusal_of(self, action: str) -> str:
        item = self._item_at_cursor()
        match action:
            case "back" if self._marked is None:
                return "q quits"
            case "resume" if item is None or item.state != "stopped":
                return "only a stopped run can be resumed"
            case "open" if self._marked is not None:
                return "esc unmarks the run that is compared"
            case "compare" if self._marked is None:
                return "space marks a run; then choose another one"
            case "compare" if item is None or self._marked == item.entry.run_id:
                return "choose another stored run; esc unmarks the first"
            case "mark" | "note" | "delete" if item is None:
                return "no stored run is under the cursor"
        return ""

    def on_data_table_row_highlighted(self) -> None:
        item, shown = self._item_at_cursor(), ""
        if item is not None:
            note = panels.printable(item.entry.note, 200)
            shown = f"Run {item.entry.run_id}{f'   Note: {note}' if note else ''}"
        self.query_one("#run", Static).update(shown, layout=False)
        self.refresh_bindings()

    def on_data_table_row_selected(self) -> None:
        """Do at a click what enter does."""
        self.app.simulate_key("enter")

    def action_open(self) -> None:
        row = self.query_one(Table).key_at_cursor()
        if row in {NEW_ROW, None}:
            self.app.action_new_question()
        else:
            self.app.run_controller.open(str(row))

    def action_back(self) -> None:
        self.mark(None)

    def action_resume(self) -> None:
        self.app.run_controller.resume(self._entry.run_id)

    def action_mark(self) -> None:
        run_id = self._entry.run_id
        self.mark(None if run_id == self._marked else run_id)

    def mark(self, run_id: str | None) -> None:
        """Choose the run that is compared with another one, or none."""
        self._marked = run_id
        self.draw()

    def action_compare(self) -> None:
        # Ids begin with the time, so that the older run comes first.
        self.app.run_in_terminal(["compare", *sorted((self._marked or "", self._entry.run_id))])

    def action_note(self) -> None:
        from advisor.tui.dialogs import LineDialog

        entry = self._entry

        def write(note: str) -> str:
            with self.app.showing_errors():
                self.app.context.store.find(entry.run_id).write_note(note)
            return ""

        lead = f"Note on run {entry.run_id}; an empty note is removed."
        placeholder = "for example: before the driver was updated"
        self.app.push_screen(LineDialog(lead, entry.note, write, placeholder))

    def action_delete(self) -> None:
        from advisor.tui.dialogs import delete_dialog

        entry = self._entry

        def delete() -> None:
            if self._marked == entry.run_id:
                self._marked = None
            try:
                self.app.context.store.delete(entry.run_id)
            finally:
                self.read_runs()

        self.app.confirm(delete_dialog(entry), delete)


def describe_machine(machine: Machine | None) -> str:
    if machine is None:
        return "This machine: detecting ..."
    average = os.getloadavg()[0]
    cpu = machine.cpu
    processors = (
        f"{panels.printable(cpu.model or 'processor', 40)}, {cpu.usable_processors} cores,"
        f" {cpu.memory_bytes / GIBIBYTE:.0f} GiB, load average {average:.1f}"
    )
    gpus = [
        f"{panels.printable(gpu.name, 40)}, {gpu.memory_bytes / GIBIBYTE:.0f} GiB,"
        f" driver {gpu.driver}"
        for gpu in machine.gpus
    ]
    if not gpus:
        return f"This machine: {processors}. No NVIDIA GPU."
    return f"This machine: {'; '.join(gpus)}. {processors}."


@functools.cache
def list_examples() -> dict[pathlib.Path, Answer]:
    """Return the answers that are part of the program by their files, in the order of names."""
    files = sorted((catalogue_directory() / "examples").glob("*.json"))
    return {file: ANSWERS.decode(file.read_bytes()) for file in files}
