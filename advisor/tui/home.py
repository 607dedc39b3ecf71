"""The first screen: what the program does, this machine, and the runs to open."""

from __future__ import annotations

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
from advisor.domain.answer import Answer
from advisor.domain.machine import Machine
from advisor.domain.text import GIBIBYTE
from advisor.store.runs import GOING_ON
from advisor.store.store import Store
from advisor.tui import panels
from advisor.tui.runs import COLUMNS, RunsScreen, StoredItem, list_items
from advisor.tui.table import SelectableTable, Table
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
MOST_LISTED = 50
#: Seconds between two looks at the runs that are going on.
REFRESH_SECONDS = 2.0
MARKS = {
    "running": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "paused": "\N{DOUBLE VERTICAL LINE}",
    "stopped": "\N{BLACK SQUARE}",
    "finished": "\N{CHECK MARK}",
    "imported": "\N{CHECK MARK}",
}


class HomeScreen(RunsScreen):
    HELP_TEXT = """\
Enter opens the row under the cursor: a new question, a run that is going on, an answer, or the
recorded run that is part of the program. n asks a new question; ctrl+r measures with the present
answers, at first the built-in model. ctrl+g shows the run that is going on, r resumes the stopped
run under the cursor. H lists all stored runs."""
    TERMS = ("P3", "workflow", "run", "trust")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("n", "app.new_question", "New", "a new question"),
        bind("ctrl+r", "app.start_now", "Run now", "measure with the present answers"),
        bind("H", "app.history", "History"),
        bind("d", "app.doctor", "Check machine", "check it for problems, in the terminal"),
    ]

    def compose_body(self) -> ComposeResult:
        yield Static(Text(PURPOSE, "bold"), id="purpose", markup=False)
        yield Static(TRADE_OFF, id="trade-off", markup=False)
        yield Static("", id="machine", markup=False)
        yield SelectableTable(id="runs")

    def on_mount(self) -> None:
        self.set_title(Text("Home", "bold"))
        self.query_one(Table).focus()
        self.draw()
        self.set_interval(REFRESH_SECONDS, self.on_screen_resume)

    def on_screen_resume(self) -> None:
        """Read the runs again: one may have ended or begun meanwhile, also in other programs."""
        if self.is_current:
            self.read_runs()

    def list_runs(self, store: Store) -> list[StoredItem]:
        # The sort is stable: those that are going on come first, each group newest first.
        return sorted(list_items(store, MOST_LISTED), key=lambda item: item.state not in GOING_ON)

    def draw(self) -> None:
        # A result may arrive before the widgets are there, or while the program ends.
        tables = self.query(Table)
        if not tables:
            return
        self.query_one("#machine", Static).update(describe_machine(self.app.machine))
        marks = {item.entry.run_id: MARKS[item.state] for item in self.items or ()}
        new = {"mark": "+", "model": "New question", "answer": "measure a model"}
        rows = {NEW_ROW: new, **self.rows(marks)}
        for file, answer in list_examples().items():
            rows[str(file)] = {
                "mark": "\N{BLACK STAR}",
                "model": answer.question.model.name.rpartition("/")[2],
                "answer": "a recorded example",
                "device": answer.device_name,
            }
        tables.first().fill(COLUMNS, rows)

    def refusal_of(self, action: str) -> str:
        return "q quits" if action == "back" else super().refusal_of(action)

    def on_data_table_row_highlighted(self) -> None:
        self.refresh_bindings()

    def on_data_table_row_selected(self) -> None:
        row = self.query_one(Table).key_at_cursor()
        if row in {NEW_ROW, None}:
            self.app.action_new_question()
        else:
            self.app.run_controller.open(str(row))


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
    return {file: msgspec.json.decode(file.read_bytes(), type=Answer) for file in files}
