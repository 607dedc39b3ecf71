"""A table of rows with keys: changed cell by cell, sorted with nothing last, its cursor staying on its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable
from textual.widgets.data_table import RowKey


class Column:
    """A column: its heading, its width, and whether it holds figures."""

    def __init__(self, key: str, heading: str, width: int, *, figures: bool = False) -> None:
        self.key, self.heading, self.width, self.figures = key, heading, width, figures


class Table(DataTable[Text]):
    """Rows by key; cells are plain text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cell_padding=1)
        self._shown: list[Column] = []
        self._cells: dict[str, dict[str, tuple[str, str]]] = {}

    def lay_out(self, columns: Sequence[Column]) -> None:
        """Show these columns; nothing happens if they are shown already."""
        signature = [(column.key, column.heading, column.width) for column in columns]
        if signature == [(column.key, column.heading, column.width) for column in self._shown]:
            return
        cursor = self.key_at_cursor()
        self.clear(columns=True)
        self._shown = list(columns)
        cells, self._cells = self._cells, {}
        for column in columns:
            heading = Text(
                column.heading, justify="right" if column.figures else "left", no_wrap=True
            )
            self.add_column(heading, width=column.width, key=column.key)
        self.fill(
            {key: {name: text for name, (text, _) in row.items()} for key, row in cells.items()}
        )
        self.point_at(cursor)

    def fill(
        self, rows: Mapping[str, Mapping[str, str]], styles: Mapping[str, str] | None = None
    ) -> None:
        """Show these rows in this order, changing only what differs; `styles` are by row key."""
        cursor = self.key_at_cursor()
        styles = styles or {}
        if list(rows) != list(self._cells):
            self.clear()
            self._cells = {}
            for key, row in rows.items():
                self.add_row(
                    *[self._text(column, row, styles.get(key, "")) for column in self._shown],
                    key=key,
                )
                self._cells[key] = {name: (text, styles.get(key, "")) for name, text in row.items()}
            self.point_at(cursor)
            return
        for key, row in rows.items():
            style = styles.get(key, "")
            for column in self._shown:
                new = (row.get(column.key, ""), style)
                if self._cells[key].get(column.key) != new:
                    self.update_cell(key, column.key, self._text(column, row, style))
            self._cells[key] = {name: (text, style) for name, text in row.items()}

    def key_at_cursor(self) -> str | None:
        """Return the key of the row under the cursor."""
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(Coordinate(self.cursor_row, 0)).row_key.value

    def point_at(self, key: str | None) -> None:
        """Move the cursor to the row with this key, if there is one."""
        if key is not None and key in self._cells:
            self.move_cursor(row=self.get_row_index(RowKey(key)), animate=False)

    def _text(self, column: Column, row: Mapping[str, str], style: str) -> Text:
        return Text(
            row.get(column.key, ""),
            style,
            justify="right" if column.figures else "left",
            no_wrap=True,
        )


class OpeningTable(Table):
    """A table whose rows can be opened."""

    HELP = "Up and down, or j and k, move; g and G go to the ends; enter opens the row."

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open", id="open")]
