"""The first screen: what the program does, this machine, and the runs to open."""

from __future__ import annotations

import datetime as dt
import functools
import os
import pathlib
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from advisor.ask.rubric_files import rubric_directory
from advisor.domain.answer import Answer, AnswerSummary
from advisor.domain.machine import Machine
from advisor.store.runs import HistoryEntry, Run, RunStatus, state_of
from advisor.store.store import Store
from advisor.text_format import format_speedup
from advisor.tui import text
from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.table import Column, SelectableTable, Table

PURPOSE = (
    "p3-advisor measures the ways to compile and run a PyTorch model on this machine, and"
    " recommends one."
)
TRADE_OFF = (
    "P3 is the trade-off between Performance, Productivity and Portability: no workflow wins all "
    "three, so you say what matters."
)
NEW_ROW, EXAMPLE_PREFIX = "new", "example:"
#: Number of stored runs that are listed.
MOST_RUNS = 8
#: Seconds between two looks at the runs that are going on.
REFRESH_SECONDS = 2.0
GIBIBYTE = 2**30
MARKS = {
    "running": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "paused": "\N{DOUBLE VERTICAL LINE}",
    "stopped": "\N{BLACK SQUARE}",
    "finished": "\N{CHECK MARK}",
    "imported": "\N{CHECK MARK}",
}
#: States of runs that can be shown or resumed.
UNFINISHED = frozenset({"running", "paused", "stopped"})
COLUMNS = (
    Column("mark", "", 1),
    Column("model", "Model", 16, most=40, is_name=True),
    Column("answer", "Answer", 20, most=50, is_name=True, terms=("workflow", "arm")),
    Column("device", "Device", 11, most=30),
    Column("speed", "Speed", 6, shown_from=72, is_numeric=True, terms=("speed-up", "baseline")),
    Column("trust", "Trust", 5, shown_from=72, terms=("trust",)),
    Column("age", "Age", 10, shown_from=72),
)


class HomeScreen(AdvisorScreen):
    """What the program does, the machine, the runs that are going on and the last answers."""

    HELP_TEXT = """\
Enter opens the row under the cursor: a new question, a run that is going on, an answer, or the
recorded run that is part of the program. n asks a new question; ctrl+r measures at once with the
default answers. ctrl+g shows the run that is going on, or resumes the newest one that was stopped.
H lists all stored runs."""
    TERMS = ("P3", "workflow", "run", "trust")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="open"),
        Binding("n", "app.new_question", "New", id="new", tooltip="a new question"),
        Binding(
            "ctrl+r",
            "app.start_now",
            "Measure demo",
            key_display="^r",
            id="run",
            tooltip="measure with the default answers, without a question",
        ),
        Binding(
            "ctrl+g",
            "go_on",
            "Continue",
            key_display="^g",
            id="go-on",
            tooltip="show the run that is going on, or resume the newest stopped one",
        ),
        Binding("H", "app.history", "History", id="history"),
        Binding(
            "d",
            "app.doctor",
            "Check machine",
            id="doctor",
            tooltip="check this machine for problems",
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: list[StoredItem] = []
        self._summaries: dict[str, AnswerSummary] = {}

    def compose_body(self) -> ComposeResult:
        yield Static(Text(PURPOSE, "bold"), id="purpose", markup=False)
        yield Static(TRADE_OFF, id="trade-off", markup=False)
        yield Static("This machine: detecting ...", id="machine", markup=False)
        yield SelectableTable(id="runs")

    def on_mount(self) -> None:
        self.set_title(Text("Home", "bold"))
        self.query_one(Table).focus()
        self.draw()
        self.set_interval(REFRESH_SECONDS, self.look_again)

    def on_screen_resume(self) -> None:
        """Read the runs again: one may have ended or begun meanwhile."""
        self.read_runs()

    def look_again(self) -> None:
        """Read the runs again while this screen is shown: other instances may start some."""
        if self.is_current:
            self.read_runs()

    def read_runs(self) -> None:
        """List the newest runs, then their answers, in the background."""
        store = self.app.context.store

        def list_newest() -> list[StoredItem]:
            items = list_items(store, MOST_RUNS * 4)
            # The sort is stable: those that are going on come first, each group newest first.
            return sorted(items, key=lambda item: not item.is_going_on)[:MOST_RUNS]

        self.app.background.start("runs", list_newest, self._show_items)

    def _show_items(self, items: list[StoredItem]) -> None:
        self._items = items
        self.refresh_bindings()
        self.draw()
        unknown = [item.entry for item in items if item.entry.run_id not in self._summaries]
        if not any(entry.finished for entry in unknown):
            return
        store = self.app.context.store

        def summarise() -> dict[str, AnswerSummary]:
            from advisor.decide.answer_summaries import read_summaries  # noqa: PLC0415 - speeds up the start

            return read_summaries(store, unknown)

        self.app.background.start("summaries", summarise, self._show_summaries)

    def _show_summaries(self, summaries: dict[str, AnswerSummary]) -> None:
        self._summaries |= summaries
        self.draw()

    def show_machine(self, machine: Machine) -> None:
        # The result may arrive while the program ends, without the widgets.
        for line in self.query("#machine").results(Static):
            line.update(describe_machine(machine))

    def draw(self) -> None:
        # A result may arrive before the widgets are there, or while the program ends.
        tables, now = self.query(Table), self.app.context.now()
        if not tables:
            return
        rows: dict[str, dict[str, str]] = {
            NEW_ROW: {"mark": "+", "model": "New question", "answer": "measure a model"}
        }
        for item in self._items:
            cells = list_cells(item, self._summaries.get(item.entry.run_id), now)
            if "trust" not in cells:
                cells["answer"] = ", ".join(filter(None, (item.state, item.progress)))
            rows[item.entry.run_id] = {"mark": MARKS[item.state], **cells}
        for file, answer in list_examples().items():
            rows[f"{EXAMPLE_PREFIX}{file}"] = {
                "mark": "\N{BLACK STAR}",
                "model": answer.question.model.name.rpartition("/")[2],
                "answer": "a recorded example",
                "device": answer.device_name,
            }
        tables.first().fill(COLUMNS, rows)

    def on_data_table_row_selected(self) -> None:
        self.action_open()

    def offers(self, action: str) -> bool:
        """Offer to continue a run only if there is one to show or to resume."""
        if action == "go_on":
            return any(item.state in UNFINISHED for item in self._items)
        return action != "back"

    def action_go_on(self) -> None:
        self.app.action_go_on()

    def action_open(self) -> None:
        row = self.query_one(Table).key_at_cursor()
        if row in {NEW_ROW, None}:
            self.app.action_new_question()
        else:
            self.app.open_stored(str(row).removeprefix(EXAMPLE_PREFIX))


def describe_machine(machine: Machine) -> str:
    """Return the GPUs with driver and memory, or the processor, and the present load."""
    load = os.getloadavg()[0]
    cpu = machine.cpu
    processors = (
        f"{text.printable(cpu.model or 'processor', 40)}, {cpu.usable_processors} cores,"
        f" {cpu.memory_bytes / GIBIBYTE:.0f} GiB, load {load:.1f}"
    )
    gpus = [
        f"{text.printable(gpu.name, 40)}, {gpu.memory_bytes / GIBIBYTE:.0f} GiB,"
        f" driver {gpu.driver}"
        for gpu in machine.gpus
    ]
    if not gpus:
        return f"This machine: {processors}. No NVIDIA GPU."
    return f"This machine: {'; '.join(gpus)}. {processors}."


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
