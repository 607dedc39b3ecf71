"""Show a sweep: the answer for its mix, the advice at each length, and the arms of the mix."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.report.sweeps.sweep_document import LengthEntry, SweepDocument
from advisor.store.runs import RunStatus
from advisor.tui import answer_actions
from advisor.tui.rendering import text
from advisor.tui.run.sweep_view import SweepView, read_sweep
from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.screens.sweep_parts import (
    arm_cells,
    arm_columns,
    length_cells,
    length_columns,
    length_notes,
    sweep_lines,
    sweep_title,
)
from advisor.tui.widgets.answer_panel import AnswerPanel
from advisor.tui.widgets.table import SelectableTable, Table

#: Seconds between two looks at a sweep with lengths that are not measured.
REFRESH_SECONDS = 2.0
#: Heights of the terminal from which every line of the answer wraps, and from which the answer
#: may take almost half of it.
TALL_HEIGHT, LOW_HEIGHT = 24, 20


class LengthTable(SelectableTable):
    """The lengths of a sweep."""


class ArmTable(Table):
    """The arms of the mix."""

    HELP = "The arms of the mix by rank: the speed-up over the mix, and at each length."


class SweepScreen(AdvisorScreen):
    """The results of one sweep."""

    HELP_TEXT = """\
The first lines are the answer for the mix of the lengths. Each row of the first table is one
length, with the workflow that is advised there; enter opens its run: the results, or the progress
while it is measured. The second table has the arms of the mix, with the speed-up over the mix and
at each length. ctrl+g measures the lengths that are left, or shows the run that is going on."""
    TERMS = ("sweep", "speed-up", "CLEAR, LIKELY, OPEN", "trust", "arm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+g",
            "resume",
            "Resume",
            id="resume",
            key_display="^g",
            tooltip="measure the lengths that are left",
        ),
        Binding("e", "export", "Export", id="export", tooltip="write a report to a file"),
        Binding("y", "copy", "Copy", id="copy", tooltip="copy the command that shows this sweep"),
        Binding("n", "app.new_question", "New", id="new", tooltip="a new question"),
        Binding("H", "app.history", "History", id="history"),
        Binding("escape", "back", "Home", id="back"),
    ]

    def __init__(self, view: SweepView) -> None:
        super().__init__()
        self._view = view

    def compose_body(self) -> ComposeResult:
        yield AnswerPanel(id="answer")
        yield LengthTable(id="lengths")
        yield Static("", id="note", markup=False)
        yield ArmTable(id="mixed-arms")

    def on_mount(self) -> None:
        self.query_one(LengthTable).focus()
        self.draw()
        self.set_interval(REFRESH_SECONDS, self.look_again)

    def on_screen_resume(self) -> None:
        """Read the sweep again: a run may have been resumed or deleted meanwhile."""
        self.look_again()

    @property
    def document(self) -> SweepDocument:
        """The sweep as it was read last."""
        return self._view.document

    def has_run(self, run_id: str) -> bool:
        return self._view.has_run(run_id)

    def look_again(self) -> None:
        """Read the sweep again while this screen is shown and lengths are left."""
        known = self._view
        if not self.is_current or known.document.finished:
            return
        store = self.app.context.store
        self.app.background.start(
            "sweep", lambda: read_sweep(known.document.sweep_id, store, known), self._show
        )

    def _show(self, view: SweepView) -> None:
        if view is not self._view and self.is_attached:
            self._view = view
            self.draw()

    def offers(self, action: str) -> bool:
        """Offer to measure only lengths that are left."""
        return action != "resume" or not self._view.document.finished

    def draw(self) -> None:
        if not self.query(LengthTable):
            return
        document, width, height = self._view.document, self.size.width, self.size.height
        self.set_title(sweep_title(document), f"{document.sweep_id[-11:]} ")
        self.set_class(height < LOW_HEIGHT, "-low")
        lines = sweep_lines(document, is_going_on=self._view.is_going_on)
        self.query_one(AnswerPanel).show(lines, is_short=height < TALL_HEIGHT)
        self.query_one(LengthTable).fill(
            length_columns(document, width),
            {
                str(index): length_cells(each, document, self._state_of(each), width)
                for index, each in enumerate(document.lengths)
            },
        )
        arms = self.query_one(ArmTable)
        arms.display = bool(document.ranked)
        arms.fill(
            arm_columns(document),
            {entry.arm: arm_cells(entry, document) for entry in document.ranked},
            {document.recommendation.arm: "bold"} if document.recommendation else {},
        )
        self.on_data_table_row_highlighted()
        self.refresh_bindings()

    def on_data_table_row_highlighted(self) -> None:
        """Show more about the length under the cursor."""
        entry = self._entry_at_cursor()
        lines = length_notes(entry, self._view.document, self._state_of(entry)) if entry else []
        shown = Text("\n".join(text.printable(line, 300) for line in lines))
        self.query_one("#note", Static).update(shown)

    def _state_of(self, entry: LengthEntry) -> RunStatus | None:
        return self._view.states.get(entry.run_id) if entry.run_id else None

    def _entry_at_cursor(self) -> LengthEntry | None:
        key = self.query_one(LengthTable).key_at_cursor()
        return self._view.document.lengths[int(key)] if key is not None else None

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if not isinstance(event.data_table, LengthTable):
            return
        entry = self._entry_at_cursor()
        if entry is None or entry.run_id is None or self._state_of(entry) is None:
            self.notify("this length has no run", markup=False)
        else:
            self.app.open_stored(entry.run_id)

    def action_back(self) -> None:
        self.app.action_home()

    def action_resume(self) -> None:
        """Measure the lengths that are left, or show the progress of the one that is measured."""
        self.app.resume(self._view.document.sweep_id)

    def action_export(self) -> None:
        answer_actions.export_sweep(self.app, self._view.document)

    def action_copy(self) -> None:
        self.copy(f"p3-advisor show {self._view.document.sweep_id}")
