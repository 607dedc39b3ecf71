"""Small questions above a screen."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from advisor.store import Entry
from advisor.tui import text
from advisor.tui.widgets.keys import Keys


class Leaving(ModalScreen[str]):
    """What becomes of a run that goes on: `keep`, `cancel`, or an empty text to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "dismiss('keep')", "Keep it running"),
        Binding("c", "dismiss('cancel')", "Cancel it"),
        Binding("escape", "dismiss('')", "Stay"),
    ]

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run

    def compose(self) -> ComposeResult:
        """Ask."""
        with Vertical(classes="dialog"):
            yield Static(f"Run {text.plain(self._run, 60)} goes on.", markup=False, classes="lead")
            yield Static(
                "k    quit and keep it running: open it later from the history", markup=False
            )
            yield Static(
                "c    quit and cancel it: what was measured is kept, p3-advisor resume goes on",
                markup=False,
            )
            yield Static("esc  stay", markup=False)
        yield Keys()


class Cancelling(ModalScreen[bool]):
    """Whether to end the run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,x", "dismiss(True)", "End it"),
        Binding("escape,n", "dismiss(False)", "Go on"),
    ]

    def compose(self) -> ComposeResult:
        """Ask."""
        with Vertical(classes="dialog"):
            yield Static(
                "End this run?  What was measured is kept, and it can be resumed.",
                markup=False,
                classes="lead",
            )
            yield Static("y    end it\nesc  go on", markup=False)
        yield Keys()


class Deleting(ModalScreen[bool]):
    """Whether to remove a stored run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Remove it"),
        Binding("escape,n", "dismiss(False)", "Keep it"),
    ]

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self._entry = entry

    def compose(self) -> ComposeResult:
        """Ask."""
        entry = self._entry
        with Vertical(classes="dialog"):
            yield Static(
                "Remove this run for good?  Its figures, logs and note cannot be had back.",
                markup=False,
                classes="lead",
            )
            yield Static(
                f"{entry.run_id}   {text.plain(entry.model, 40)}   {text.plain(entry.device, 40)}",
                markup=False,
            )
            yield Static(text.plain(entry.note, 200), markup=False)
            yield Static("y    remove it\nesc  keep it", markup=False)
        yield Keys()


class NoteLine(Input):
    """The line for a note."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Keep")]


class Noting(ModalScreen[str | None]):
    """A line about a run."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, run_id: str, note: str) -> None:
        super().__init__()
        self._run_id, self._note = run_id, note

    def compose(self) -> ComposeResult:
        """Ask for the line."""
        with Vertical(classes="dialog"):
            yield Static(
                f"A line to remember run {self._run_id} by; empty removes it.",
                markup=False,
                classes="lead",
            )
            yield NoteLine(
                self._note, placeholder="such as: before the driver was updated", id="words"
            )
        yield Keys()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the line back."""
        self.dismiss(event.value.strip())


class WritingLine(Input):
    """The line for the file's name."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Write")]


class Export(ModalScreen[pathlib.Path | None]):
    """Where to write the document; asks again before anything is overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, proposed: pathlib.Path, endings: Sequence[str]) -> None:
        super().__init__()
        self._endings = endings
        self._proposed = proposed
        self._confirmed = ""

    def compose(self) -> ComposeResult:
        """Ask for the file."""
        with Vertical(classes="dialog"):
            yield Static(
                "Export this run.  The ending says as what: " + ", ".join(self._endings),
                markup=False,
                classes="lead",
            )
            yield WritingLine(str(self._proposed), id="file")
            yield Static("", id="note", markup=False)
        yield Keys()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the file back, unless there is one already."""
        name = event.value.strip()
        file = pathlib.Path(name).expanduser()
        if not name or file.is_dir() or not file.parent.is_dir():
            self.query_one("#note", Static).update("name a file in a directory that exists")
        elif file.suffix.lower() not in self._endings:
            self.query_one("#note", Static).update(
                f"end the name with one of {', '.join(self._endings)}"
            )
        elif file.exists() and self._confirmed != name:
            self._confirmed = name
            self.query_one("#note", Static).update(
                "that file exists; enter once more overwrites it"
            )
        else:
            self.dismiss(file)
