"""Edit the note of a stored run."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from advisor.tui.dialogs.dialog import Dialog
from advisor.tui.widgets.key_footer import KeyFooter


class NoteInput(Input):
    """The input for the note."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Save")]


class NoteDialog(Dialog[str | None]):
    """Asks for a note; returns it, or None if the dialog is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, run_id: str, note: str) -> None:
        super().__init__()
        self._run_id, self._note = run_id, note

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                f"Note on run {self._run_id}; an empty note is removed.",
                markup=False,
                classes="lead",
            )
            yield NoteInput(self._note, placeholder="for example: before the driver was updated")
        yield KeyFooter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())
