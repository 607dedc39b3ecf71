"""A table of keyed rows that updates single cells and keeps the cursor on its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable
from textual.widgets.data_table import RowKey


class Column:
    """A column; numeric columns are aligned to the right."""

    def __init__(
        self,
        key: str,
        heading: str,
        width: int,
        *,
        is_numeric: bool = False,
        terms: Sequence[str] = (),
    ) -> None:
        """`terms` are the terms of the glossary that explain the heading."""
        self.key, self.heading, self.width, self.is_numeric = key, heading, width, is_numeric
        self.terms = tuple(terms)


#: Text and style by column key.
Cells = Mapping[str, tuple[str, str]]


class Table(DataTable[Text]):
    """A table; its cells are plain text without markup.

    Left and right mark the heading of a column that has terms to explain.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]

    def __init__(self, *, id: str, gap: int = 2) -> None:  # noqa: A002 - Textual's word
        """`gap` is the number of cells between two columns: 2, or 1 for tables that need room."""
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cell_padding=gap // 2)
        #: Space that follows the text of a cell, where the padding is too wide.
        self._space = " " * (gap % 2)
        self._shown: list[Column] = []
        self._cells: dict[str, Cells] = {}
        #: Key of the column whose heading is marked, empty for none.
        self._marked = ""

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show these columns and keep the rows."""
        signature = [(column.key, column.heading, column.width) for column in columns]
        if signature != [(column.key, column.heading, column.width) for column in self._shown]:
            self._shown = list(columns)
            self._show_again()

    def _show_again(self) -> None:
        """Build the columns and rows again."""
        cursor = self.key_at_cursor()
        self.clear(columns=True)
        for column in self._shown:
            style = "reverse" if column.key == self._marked else ""
            heading = self._text(column, column.heading, style)
            self.add_column(heading, width=column.width + len(self._space), key=column.key)
        self._add_rows(self._cells)
        self.move_cursor_to(cursor)

    def set_rows(
        self, rows: Mapping[str, Mapping[str, str]], styles: Mapping[str, str] | None = None
    ) -> None:
        """Show these rows in this order; `rows` and `styles` are by row key.

        Only cells that differ are updated if the keys are the same as before.
        """
        styles = styles or {}
        cells: dict[str, Cells] = {
            key: {name: (text, styles.get(key, "")) for name, text in row.items()}
            for key, row in rows.items()
        }
        if list(rows) == list(self._cells):
            self._update_cells(cells)
            return
        cursor = self.key_at_cursor()
        self.clear()
        self._cells = cells
        self._add_rows(cells)
        self.move_cursor_to(cursor)

    def _add_rows(self, cells: Mapping[str, Cells]) -> None:
        for key, row in cells.items():
            self.add_row(*[self._cell_text(column, row) for column in self._shown], key=key)

    def _update_cells(self, cells: dict[str, Cells]) -> None:
        before, self._cells = self._cells, cells
        for key, row in cells.items():
            for column in self._shown:
                if before[key].get(column.key) != row.get(column.key):
                    self.update_cell(key, column.key, self._cell_text(column, row))

    def _cell_text(self, column: Column, row: Cells) -> Text:
        text, style = row.get(column.key, ("", ""))
        return self._text(column, text, style)

    def _text(self, column: Column, text: str, style: str) -> Text:
        if not column.is_numeric:
            return Text(text, style, no_wrap=True)
        return Text(f"{text:>{column.width}}{self._space}", style, no_wrap=True)

    def key_at_cursor(self) -> str | None:
        """Return the key of the row under the cursor, None in an empty table."""
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(Coordinate(self.cursor_row, 0)).row_key.value

    def move_cursor_to(self, key: str | None) -> None:
        """Move the cursor to the row with this key, if the table has it."""
        if key is not None and key in self._cells:
            self.move_cursor(row=self.get_row_index(RowKey(key)), animate=False)

    def action_cursor_left(self) -> None:
        """Mark the previous column that has terms; before the first one, none."""
        self._move_mark(-1)

    def action_cursor_right(self) -> None:
        """Mark the next column that has terms; after the last one, none."""
        self._move_mark(1)

    def _move_mark(self, steps: int) -> None:
        keys = ["", *(column.key for column in self._shown if column.terms)]
        index = keys.index(self._marked) if self._marked in keys else 0
        self._marked = keys[(index + steps) % len(keys)]
        self._show_again()

    def help_terms(self) -> tuple[str, ...]:
        """Return the terms of the marked column."""
        return next((each.terms for each in self._shown if each.key == self._marked), ())


class SelectableTable(Table):
    """A table whose rows can be opened."""

    HELP = """\
Up and down, or j and k, move; g and G go to the ends; enter opens the row. Left and right mark a
column, and ? then explains it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open", id="open")]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Offer to open a row only if there is one."""
        return action != "select_cursor" or self.row_count > 0

    def set_rows(
        self, rows: Mapping[str, Mapping[str, str]], styles: Mapping[str, str] | None = None
    ) -> None:
        had_rows = self.row_count > 0
        super().set_rows(rows, styles)
        if had_rows != (self.row_count > 0):
            self.refresh_bindings()
