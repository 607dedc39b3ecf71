"""What a fleet has answered: a row for each model and kind of device, and from each the way to its run."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.report import fleet_documents
from advisor.report.fleet_matrix import FleetDocument, MatrixCell, tell_cell, tell_contention
from advisor.tui import text
from advisor.tui.screens.filtered import Filtered
from advisor.tui.screens.frame import TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.table import Column, OpeningTable, Table

#: Columns of figures, each with the width from which on there is room for it.
FIGURES = (
    (60, Column("speedup", "speed-up", 8, figures=True)),
    (60, Column("trust", "trust", 5)),
    (100, Column("throughput", "throughput", 18, figures=True)),
    (120, Column("verdict", "verdict", 12)),
    (140, Column("cost", "cost", 26, figures=True)),
)
DEVICE = 12


class Fleet(Filtered):
    """The matrix of one fleet's answer."""

    HELP_TEXT = """\
Each row is one model on one kind of device: what to use there, how much faster than eager PyTorch it is, and how
far that can be trusted. Enter opens the run behind a row. / shows the rows that fit some words only. [ and ] go to
the fleet before and after. The same as p3-advisor fleet."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Filtered.FILTER,
        Binding("left_square_bracket,left", "step(-1)", "Older", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Newer", key_display="]", id="next-arm"),
        Binding("escape", "back", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, document: FleetDocument) -> None:
        super().__init__()
        self._document = document

    def compose(self) -> ComposeResult:
        """Make the table."""
        yield TopLine()
        yield self.compose_filter()
        yield OpeningTable(id="matrix")
        yield Static("", id="note", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Show the matrix."""
        self.query_one(Table).focus()
        self._show(self._document)

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self.list_rows)

    def _show(self, document: FleetDocument) -> None:
        self._document = document
        self.query_one(TopLine).tell(
            Text(f"Fleet {document.fleet_id}"), f"{text.plain(document.created[:10])} "
        )
        self.list_rows()

    def list_rows(self) -> None:
        """Fill the table with what the filter leaves."""
        width = self.size.width
        figures = [column for least, column in FIGURES if width >= least]
        room = width - DEVICE - sum(column.width + 2 for column in figures) - 7
        model, strategy = max(room * 2 // 5, 8), max(room * 3 // 5, 12)
        table = self.query_one(Table)
        table.lay_out(
            [
                Column("model", "Model", model),
                Column("device", "Device", DEVICE),
                Column("strategy", "Strategy", strategy),
                *figures,
            ]
        )
        shown = {
            key: cell
            for key, cell in self._cells().items()
            if self.wants(cell.model, cell.kind, cell.arm)
        }
        table.fill({key: self._row(cell, model, strategy) for key, cell in shown.items()})
        self._tell()

    def _cells(self) -> dict[str, MatrixCell]:
        return {str(place): cell for place, cell in enumerate(self._document.cells)}

    def _row(self, cell: MatrixCell, model: int, strategy: int) -> dict[str, str]:
        told = tell_cell(cell)
        told |= {
            "model": text.squeeze(text.plain(cell.model), model),
            "device": text.plain(cell.kind, DEVICE),
        }
        return {**told, "strategy": text.squeeze(text.plain(told["strategy"]), strategy)}

    def _tell(self) -> None:
        """Say what the row under the cursor has besides, and what holds for the whole fleet."""
        cell = self._cell()
        lines = []
        if cell is not None:
            lines += [f"{cell.model} on {cell.kind}: {cell.reason or cell.arm or 'no answer'}"]
            lines += [f"next: {cell.next_step}"] if cell.next_step else []
            lines += (
                [f"answered at attempt {cell.attempts}; nodes were lost"] if cell.is_retried else []
            )
            lines += [f"node {cell.node}, device {cell.device}"] if cell.node else []
            lines += [
                f"cheapest for {cell.model}: {kind}"
                for model, kind in self._document.cheapest.items()
                if model == cell.model
            ]
        lines += map(tell_contention, self._document.contentions)
        self.query_one("#note", Static).update(
            Text("\n".join(text.plain(line, 300) for line in lines))
        )

    def _cell(self) -> MatrixCell | None:
        return self._cells().get(self.query_one(Table).key_at_cursor() or "")

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Tell the row's further words."""
        event.stop()
        self._tell()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run, where there is one."""
        event.stop()
        cell = self._cell()
        if cell is None or cell.run_id is None:
            self.notify("there is no run behind this row", markup=False)
        else:
            self.advisor.runs.open(cell.run_id)

    def action_step(self, by: int) -> None:
        """Show the fleet before or after."""
        names = self.advisor.world.store.fleets.names()
        place = (
            names.index(self._document.fleet_id) + by if self._document.fleet_id in names else -1
        )
        if 0 <= place < len(names):
            self.advisor.background.do(
                "fleet",
                lambda: fleet_documents.read_answer(names[place], self.advisor.world.store),
                self._show,
            )
