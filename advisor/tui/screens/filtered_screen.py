"""A screen with a table whose rows can be filtered."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.widgets.table import Table


class FilteredScreen(AdvisorScreen):
    """A screen with a table and an input that filters it, hidden at first."""

    #: To be listed in the bindings of the screen, which determine the order in the footer.
    FILTER: ClassVar[BindingType] = Binding(
        "slash", "filter", "Filter", key_display="/", id="filter"
    )

    def __init__(self) -> None:
        super().__init__()
        self._filter_text = ""

    def compose_filter(self) -> Input:
        """Return the hidden input."""
        filter_input = Input(placeholder="filter", id="filter", compact=True)
        filter_input.display = False
        return filter_input

    @abstractmethod
    def list_rows(self) -> None:
        """Fill the table with the rows that pass the filter."""

    def passes_filter(self, *fields: object) -> bool:
        """Return whether a row with these fields contains the text of the filter."""
        return self._filter_text.lower() in " ".join(map(str, fields)).lower()

    def action_filter(self) -> None:
        """Show the input."""
        filter_input = self.query_one("#filter", Input)
        filter_input.display = True
        filter_input.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self.list_rows()

    def on_input_submitted(self) -> None:
        self.query_one(Table).focus()

    def action_back(self) -> None:
        """Close the filter if it is shown, else the screen."""
        filter_input = self.query_one("#filter", Input)
        if filter_input.display:
            filter_input.value, filter_input.display = "", False
            self.query_one(Table).focus()
        else:
            self.app.pop_screen()
