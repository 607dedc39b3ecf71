"""Show the answers of a fleet: one row for each model and kind of device."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from advisor.report.fleets import fleet_matrix
from advisor.report.fleets.fleet_matrix import (
    FleetDocument,
    MatrixCell,
    render_cell,
)
from advisor.tui.rendering import text
from advisor.tui.screens.advisor_screen import FilteredScreen
from advisor.tui.widgets.table import Column, SelectableTable, Table

COLUMNS = (
    Column("model", "Model", 8, most=40, is_name=True),
    Column("device", "Device", 12),
    Column("strategy", "Strategy", 14, most=50, is_name=True),
    Column("speedup", "Speed-up", 8, is_numeric=True),
    Column("trust", "Trust", 5),
    Column("throughput", "Throughput", 18, shown_from=100, is_numeric=True),
    Column("decision", "Decision", 8, shown_from=100),
    Column("cost", "Cost", 26, shown_from=140, is_numeric=True),
)


class FleetScreen(FilteredScreen):
    """The answers of one fleet."""

    HELP_TEXT = """\
Each row is one model on one kind of device: the recommended workflow, its speed-up over eager
PyTorch, and the trust in the answer. Enter opens the run behind a row. / filters the rows. [ and ]
show the previous and the next fleet. p3-advisor fleet prints the same table."""
    BINDINGS: ClassVar[list[BindingType]] = [
        FilteredScreen.FILTER,
        Binding("left_square_bracket,left", "step(-1)", "Older", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Newer", key_display="]", id="next-arm"),
    ]

    def __init__(self, document: FleetDocument) -> None:
        super().__init__()
        self._document = document

    def compose_body(self) -> ComposeResult:
        yield SelectableTable(id="matrix")
        yield Static("", id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Table).focus()

    def _show(self, document: FleetDocument) -> None:
        self._document = document
        self.draw()

    def draw(self) -> None:
        created = f"{text.printable(self._document.created[:10])} "
        self.set_title(Text(f"Fleet {self._document.fleet_id}"), created)
        self.query_one(Table).fill(
            COLUMNS,
            {
                row: {**render_cell(cell), "model": cell.model, "device": cell.kind}
                for row, cell in self._cells().items()
                if self.passes_filter(cell.model, cell.kind, cell.answer.arm)
            },
        )
        self._draw_note()

    def _cells(self) -> dict[str, MatrixCell]:
        """Return the answers by row key."""
        return {str(index): cell for index, cell in enumerate(self._document.cells)}

    def _draw_note(self) -> None:
        """Show more about the row under the cursor."""
        cell = self._cell_at_cursor()
        lines = [] if cell is None else self._cell_notes(cell)
        self.query_one("#note", Static).update(
            Text("\n".join(text.printable(line, 300) for line in lines))
        )

    def _cell_notes(self, cell: MatrixCell) -> list[str]:
        lines = [f"{cell.model} on {cell.kind}: {cell.reason or cell.answer.arm or 'no answer'}"]
        if cell.next_step:
            lines.append(f"next: {cell.next_step}")
        if cell.is_retried:
            lines.append(f"answered at attempt {cell.attempts}; nodes were lost")
        if cell.node:
            lines.append(f"node {cell.node}, device {cell.device}")
        cheapest = self._document.cheapest.get(cell.model)
        if cheapest is not None:
            lines.append(f"cheapest for {cell.model}: {cheapest}")
        return lines

    def _cell_at_cursor(self) -> MatrixCell | None:
        return self._cells().get(self.query_one(Table).key_at_cursor() or "")

    def on_data_table_row_highlighted(self) -> None:
        self._draw_note()

    def on_data_table_row_selected(self) -> None:
        cell = self._cell_at_cursor()
        if cell is None or cell.run_id is None:
            self.notify("this row has no run", markup=False)
        else:
            self.app.open_stored(cell.run_id)

    def action_step(self, steps: int) -> None:
        """Show the next fleet, or with -1 the previous one."""
        store = self.app.context.store
        ids = store.fleets.ids()
        if self._document.fleet_id not in ids:
            return
        index = ids.index(self._document.fleet_id) + steps
        if 0 <= index < len(ids):
            self.app.background.start(
                "fleet",
                lambda: fleet_matrix.read_fleet(ids[index], store),
                self._show,
            )
