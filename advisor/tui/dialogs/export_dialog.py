"""Ask for the file to export a document to."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from advisor.tui.dialogs.dialog import Dialog
from advisor.tui.widgets.key_footer import KeyFooter


class FileNameInput(Input):
    """The input for the file name."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Write")]


class ExportDialog(Dialog[pathlib.Path | None]):
    """Asks for a file name, and again before it overwrites a file; returns None if it is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(
        self, proposed: pathlib.Path, extensions: Sequence[str], *, subject: str = "run"
    ) -> None:
        super().__init__()
        self._subject = subject
        self._proposed = proposed
        self._extensions = extensions
        self._overwrite_confirmed = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                f"Export this {self._subject}.  The extension selects the format: "
                + ", ".join(self._extensions),
                markup=False,
                classes="lead",
            )
            yield FileNameInput(str(self._proposed))
            yield Static("", id="note", markup=False)
        yield KeyFooter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the file, or show why it is not written yet."""
        name = event.value.strip()
        file = pathlib.Path(name).expanduser()
        note = ""
        if not name or file.is_dir() or not file.parent.is_dir():
            note = "name a file in a directory that exists"
        elif file.suffix.lower() not in self._extensions:
            note = f"use one of the extensions {', '.join(self._extensions)}"
        elif file.exists() and self._overwrite_confirmed != name:
            self._overwrite_confirmed = name
            note = "that file exists; press enter again to overwrite it"
        if note:
            self.query_one("#note", Static).update(note)
        else:
            self.dismiss(file)
