"""A table of keyed rows that updates single cells and keeps the cursor on its row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable
from textual.widgets.data_table import RowKey

from advisor.domain.measurement import Interval
from advisor.domain.text import truncate_middle
from advisor.tui import panels
from advisor.tui.widgets import bind

VERTICAL, HORIZONTAL = "\N{BOX DRAWINGS LIGHT VERTICAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
CROSS = "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}"
LOWER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}"
UPPER_END = "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
VALUE = "\N{BLACK CIRCLE}"
BELOW, ABOVE = "\N{BLACK LEFT-POINTING TRIANGLE}", "\N{BLACK RIGHT-POINTING TRIANGLE}"
#: Text, or a speed-up that is drawn on the axis of its column, by the key of the column.
Row = Mapping[str, str | Interval]


@dataclasses.dataclass(frozen=True)
class SpeedAxis:
    """A logarithmic axis of speed-ups over a number of cells, with the baseline at 1x."""

    low: float
    high: float
    cells: int

    #: The axis starts here at the latest, and shows no slower arms than these: the lower limit is
    #: for axes that reach `FAR`.
    LATEST_START, LOWEST_START, LOWEST_FAR_START, FAR = 0.9, 0.5, 0.25, 4.0
    #: The axis ends here at the earliest.
    EARLIEST_END, MARGIN = 1.25, 1.03
    #: Ticks of the axis, in the order in which they get their place.
    TICKS: ClassVar[tuple[float, ...]] = (
        *(1, 2, 4, 8, 16, 32, 64, 128),
        *(0.5, 0.25, 1.5, 3, 1.25, 6, 12, 1.1, 0.75),
    )

    @classmethod
    def for_speedups(cls, speedups: Iterable[Interval], cells: int) -> SpeedAxis:
        """Return the axis that holds all intervals but those of very slow arms."""
        bounds = [
            bound
            for speedup in speedups
            for bound in (speedup.low or speedup.value, speedup.high or speedup.value)
            if math.isfinite(bound) and bound > 0
        ]
        high = max([cls.EARLIEST_END, *bounds]) * cls.MARGIN
        lowest = cls.LOWEST_FAR_START if high > cls.FAR else cls.LOWEST_START
        return cls(max(min([cls.LATEST_START, *bounds]) / cls.MARGIN, lowest), high, cells)

    def place(self, value: float) -> int:
        """Return the cell of a value; the first or last for one beyond the axis."""
        if not self.low < value < self.high:
            return self.cells - 1 if value >= self.high else 0
        return round(math.log(value / self.low) / math.log(self.high / self.low) * (self.cells - 1))

    def bar(self, speedup: Interval) -> str:
        cells = [" "] * self.cells
        one = self.place(1.0)
        cells[one] = VERTICAL
        if speedup.low is not None and speedup.high is not None:
            first, last = self.place(speedup.low), self.place(speedup.high)
            for cell in range(first, last + 1):
                cells[cell] = CROSS if cell == one else HORIZONTAL
            if last > first:
                cells[first], cells[last] = LOWER_END, UPPER_END
        cells[self.place(speedup.value)] = (
            BELOW if speedup.value < self.low else ABOVE if speedup.value > self.high else VALUE
        )
        return "".join(cells)

    def labels(self) -> str:
        """Return a line with the ticks at their values, without those that would touch another."""
        line = [" "] * self.cells
        for tick in self.TICKS:
            label = f"{tick:g}x"
            start = max(min(self.place(tick), self.cells - len(label)), 0)
            around = line[max(start - 1, 0) : start + len(label) + 1]
            is_inside = self.low <= tick <= self.high and len(label) <= self.cells
            if is_inside and not "".join(around).strip():
                line[start : start + len(label)] = label
        return "".join(line)


@dataclasses.dataclass
class Column:
    """A column; numeric columns are aligned to the right."""

    key: str
    heading: str
    #: Cells, and the most where the terminal has room; a name takes no more than its content.
    width: int
    most: int = 0
    #: Width of the terminal from which the column is shown.
    shown_from: int = 0
    is_numeric: bool = False
    #: Whether a content that is too long loses its middle, because names differ in their ends.
    is_name: bool = False

    def cell(self, content: str, style: str = "") -> Text:
        cut = truncate_middle if self.is_name else panels.truncate
        shown = cut(panels.printable(content), self.width)
        return Text(f"{shown:>{self.width}}" if self.is_numeric else shown, style, no_wrap=True)


def fit_columns(
    columns: Sequence[Column], width: int, rows: Collection[Row], margin: int = 0
) -> list[Column]:
    """Return the columns that a terminal shows; the first ones get the cells that are left.

    Figures that no row has are left out. Names take no more than they need. `margin` is what of the
    terminal lies beside the table.
    """
    shown = [
        dataclasses.replace(column)
        for column in columns
        if width >= column.shown_from
        and (not column.is_numeric or {row.get(column.key, "-") for row in rows} - {"", "-"})
    ]
    for column in shown:
        if column.is_name and rows:
            longest = max(len(str(row.get(column.key, ""))) for row in rows)
            column.most = min(max(longest, len(column.heading)), column.most or column.width)
            column.width = min(column.width, column.most)
    left = width - margin - 1 - sum(column.width + 1 for column in shown)
    for column in shown:
        more = max(min(column.most - column.width, left), 0)
        column.width, left = column.width + more, left - more
    return shown


class Table(DataTable[Text]):
    """A table; its cells are plain text without markup, whatever it contains."""

    HELP = "Up and down, or j and k, move; g and G go to the ends."
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("j", "cursor_down"),
        bind("k", "cursor_up"),
        bind("g", "scroll_top"),
        bind("G", "scroll_bottom"),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cell_padding=0)
        self._shown: list[Column] = []
        #: Content and style of the cells by the key of the row.
        self._cells: dict[str, list[tuple[str, str]]] = {}

    def fill(
        self,
        columns: Sequence[Column],
        rows: Mapping[str, Row],
        styles: Mapping[str, str] | None = None,
    ) -> None:
        """Show these rows in this order, in the columns for which the terminal has room.

        `rows` and `styles` are by row key. Only cells that differ are updated where columns and
        keys are the same as before.
        """
        width, styles = self.app.size.width, styles or {}
        margin = width - self.size.width if self.size.width else 0
        shown = fit_columns(columns, width, rows.values(), margin)
        cells: dict[str, list[tuple[str, str]]] = {key: [] for key in rows}
        for column in shown:
            contents = [row.get(column.key, "") for row in rows.values()]
            speedups = [each for each in contents if isinstance(each, Interval)]
            axis = SpeedAxis.for_speedups(speedups, column.width)
            if speedups:
                column.heading = axis.labels()
            for key, content in zip(rows, contents, strict=True):
                drawn = axis.bar(content) if isinstance(content, Interval) else content
                cells[key].append((drawn, styles.get(key, "")))
        if shown == self._shown and list(cells) == list(self._cells):
            self._update_cells(cells)
            return
        cursor = self.key_at_cursor()
        self.clear(columns=True)
        self._shown, self._cells = shown, cells
        for column in shown:
            # The additional cell is the space before the next column.
            self.add_column(column.cell(column.heading), width=column.width + 1, key=column.key)
        for key, row in cells.items():
            texts = [column.cell(*cell) for column, cell in zip(shown, row, strict=True)]
            self.add_row(*texts, key=key)
        self.move_cursor_to(cursor)
        self.refresh_bindings()

    def _update_cells(self, cells: dict[str, list[tuple[str, str]]]) -> None:
        for key, row in cells.items():
            for column, before, now in zip(self._shown, self._cells[key], row, strict=True):
                if before != now:
                    self.update_cell(key, column.key, column.cell(*now))
        self._cells = cells

    def key_at_cursor(self) -> str | None:
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(Coordinate(self.cursor_row, 0)).row_key.value

    def move_cursor_to(self, key: str | None) -> None:
        if key is not None and key in self._cells:
            self.move_cursor(row=self.get_row_index(RowKey(key)), animate=False)


class SelectableTable(Table):
    """A table whose rows the screen opens at enter; up in its first row leaves it."""

    HELP = f"{Table.HELP} Enter opens the row."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        return action != "select_cursor"

    def action_cursor_up(self) -> None:
        if self.cursor_row == 0:
            self.screen.focus_previous()
        else:
            super().action_cursor_up()
