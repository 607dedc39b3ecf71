"""What screens with a long table share: a line that leaves only the rows with some words in them."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from advisor.tui.screens.frame import Frame
from advisor.tui.widgets.table import Table


class Filtered(Frame):
    """A screen with a table and, once asked for, a line that filters it."""

    #: For the screen's own list, where it stands among the other keys.
    FILTER: ClassVar[BindingType] = Binding(
        "slash", "filter", "Filter", key_display="/", id="filter"
    )

    def __init__(self) -> None:
        super().__init__()
        self._wanted = ""

    def compose_filter(self) -> Input:
        """Return the line, which is not shown yet."""
        line = Input(placeholder="filter", id="filter", compact=True)
        line.display = False
        return line

    @abstractmethod
    def list_rows(self) -> None:
        """Fill the table with the rows that are wanted."""

    def wants(self, *words: object) -> bool:
        """Say whether a row with these words is to be shown."""
        return self._wanted.lower() in " ".join(map(str, words)).lower()

    def action_filter(self) -> None:
        """Show the line for the filter."""
        line = self.query_one("#filter", Input)
        line.display = True
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter."""
        self._wanted = event.value.strip()
        self.list_rows()

    def on_input_submitted(self) -> None:
        """Back to the table."""
        self.query_one(Table).focus()

    def action_back(self) -> None:
        """Leave the filter, or the screen."""
        line = self.query_one("#filter", Input)
        if line.display:
            line.value, line.display = "", False
            self.query_one(Table).focus()
        else:
            self.app.pop_screen()
