"""The first screen: what the program does, this machine, and the runs to open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.domain.machine import Machine
from advisor.system.number_format import format_speedup
from advisor.tui.rendering import text
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.widgets.key_footer import KeyFooter
from advisor.tui.widgets.table import Column, SelectableTable, Table

if TYPE_CHECKING:
    from advisor.domain.answer import AnswerSummary
    from advisor.tui.run.stored_items import StoredItem

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
#: Width of the terminal from which a row has the speed-up, the trust and the age.
MEDIUM_WIDTH = 72


class HomeScreen(AdvisorScreen):
    """What the program does, the machine, the runs that are going on and the last answers."""

    HELP_TEXT = """\
Enter opens the row under the cursor: a new question, a run that is going on, an answer, or the
recorded run that is part of the program. n asks a new question; ctrl+r measures at once with the
default answers. ctrl+g shows the run that is going on, or resumes the newest one that was stopped.
H lists all stored runs. A row of several lengths is a sweep, which stands for its runs."""
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
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: list[StoredItem] = []
        self._summaries: dict[str, AnswerSummary] = {}

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield Static(Text(PURPOSE, "bold"), id="purpose", markup=False)
        yield Static(TRADE_OFF, id="trade-off", markup=False)
        yield Static("This machine: detecting ...", id="machine", markup=False)
        yield SelectableTable(id="runs")
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(TitleBar).set_text(Text("Home", "bold"))
        self.query_one(Table).focus()
        self._draw()
        self.set_interval(REFRESH_SECONDS, self.look_again)

    def on_screen_resume(self) -> None:
        """Read the runs again: one may have ended or begun meanwhile."""
        self.read_runs()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def look_again(self) -> None:
        """Read the runs again while this screen is shown: other instances may start some."""
        if self.is_current:
            self.read_runs()

    def read_runs(self) -> None:
        """List the newest runs, then their answers, in the background."""
        app = self.app

        def list_newest() -> list[StoredItem]:
            from advisor.tui.run.stored_items import list_items  # noqa: PLC0415 - speeds up the start

            items = list_items(app.context.store, MOST_RUNS * 4)
            # Sweeps stand for their runs.
            items = [item for item in items if not item.sweep_id]
            # The sort is stable: those that are going on come first, each group newest first.
            return sorted(items, key=lambda item: not item.is_going_on)[:MOST_RUNS]

        app.background.start("runs", list_newest, self._show_items)

    def _show_items(self, items: list[StoredItem]) -> None:
        self._items = items
        self.refresh_bindings()
        self._draw()
        unknown = [item.entry for item in items if item.item_id not in self._summaries]
        if not any(entry.finished for entry in unknown):
            return
        app = self.app

        def summarise() -> dict[str, AnswerSummary]:
            from advisor.pipeline.answer_summaries import read_summaries  # noqa: PLC0415 - as above

            return read_summaries(app.context.store, unknown)

        app.background.start("summaries", summarise, self._show_summaries)

    def _show_summaries(self, summaries: dict[str, AnswerSummary]) -> None:
        self._summaries |= summaries
        self._draw()

    def show_machine(self, machine: Machine) -> None:
        """Show the devices of the machine."""
        # The result may arrive while the program ends, without the widgets.
        for line in self.query("#machine").results(Static):
            line.update(describe_machine(machine))

    def _draw(self) -> None:
        from advisor.tui.run.examples import list_examples  # noqa: PLC0415 - speeds up the start

        # A result may arrive before the widgets are there, or while the program ends.
        tables = self.query(Table)
        if not tables:
            return
        rows = {NEW_ROW: {"mark": "+", "what": "New question", "answer": "measure a model"}}
        rows |= {item.item_id: self._item_cells(item) for item in self._items}
        for file, answer in list_examples().items():
            rows[f"{EXAMPLE_PREFIX}{file}"] = {
                "mark": "\N{BLACK STAR}",
                "what": answer.question.model.name.rpartition("/")[2],
                "answer": "a recorded example",
                "device": answer.device_name,
            }
        tables.first().fill(_columns(self.size.width), rows)

    def _item_cells(self, item: StoredItem) -> dict[str, str]:
        from advisor.tui.rendering.list_cells import describe_winner, format_age  # noqa: PLC0415 - speeds up the start

        entry = item.entry
        cells = {
            "mark": MARKS[item.state],
            "what": item.model,
            "device": entry.device,
            "answer": ", ".join(filter(None, (item.state, item.progress))),
            "age": format_age(entry.created, self.app.context.now()),
        }
        summary = self._summaries.get(entry.run_id)
        if entry.finished and summary is not None:
            cells["answer"] = describe_winner(summary)
            cells["speed"] = format_speedup(summary.speedup) if summary.arm else ""
            cells["trust"] = summary.trust or ""
        return cells

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        self.action_open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Hide the key of the current run while there is none to show or to resume."""
        return action != "go_on" or any(item.state in UNFINISHED for item in self._items)

    def action_go_on(self) -> None:
        """Show the run that is going on, or resume the newest stopped one."""
        self.app.action_go_on()

    def action_open(self) -> None:
        """Open the row under the cursor."""
        row = self.query_one(Table).key_at_cursor()
        if row in {NEW_ROW, None}:
            self.app.action_new_question()
        else:
            self.app.open_stored(str(row).removeprefix(EXAMPLE_PREFIX))


def _columns(width: int) -> list[Column]:
    figures = []
    if width >= MEDIUM_WIDTH:
        figures = [
            Column("speed", "Speed", 6, is_numeric=True, terms=("speed-up", "baseline")),
            Column("trust", "Trust", 5, terms=("trust",)),
            Column("age", "Age", 10),
        ]
    rest = width - 6 - sum(column.width + 1 for column in figures)
    what, device = rest * 3 // 8, max(rest // 5, 11)
    return [
        Column("mark", "", 1),
        Column("what", "Model", what, is_name=True),
        Column("answer", "Answer", rest - what - device, is_name=True, terms=("workflow", "arm")),
        Column("device", "Device", device),
        *figures,
    ]


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
