"""Modal questions that the user answers with one key."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from advisor.store.index import HistoryEntry
from advisor.tui.dialogs.dialog import Dialog
from advisor.tui.rendering import text
from advisor.tui.widgets.key_footer import KeyFooter


class QuitDialog(Dialog[str]):
    """Asks what to do with a run in progress; returns `keep`, `cancel`, or an empty text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "dismiss('keep')", "Keep it running"),
        Binding("c", "dismiss('cancel')", "Cancel it"),
        Binding("escape", "dismiss('')", "Stay"),
    ]

    def __init__(self, run_status: str) -> None:
        super().__init__()
        self._run_status = run_status

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                f"Quit?  {text.printable(self._run_status, 60)}",
                markup=False,
                classes="lead",
            )
            yield Static("k    quit and keep the run: open it later from the history", markup=False)
            yield Static(
                "c    quit and cancel the run: its measurements are kept,"
                " p3-advisor resume continues it",
                markup=False,
            )
            yield Static("esc  stay", markup=False)
        yield KeyFooter()


class CancelDialog(Dialog[bool]):
    """Asks whether to end the run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,x", "dismiss(True)", "Cancel the run"),
        Binding("escape,n", "dismiss(False)", "Continue"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(
                "Cancel this run?  Its measurements are kept, and it can be resumed.",
                markup=False,
                classes="lead",
            )
            yield Static("y    cancel the run\nesc  continue", markup=False)
        yield KeyFooter()


class DeleteDialog(Dialog[bool]):
    """Asks whether to delete a stored run or sweep."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Delete it"),
        Binding("escape,n", "dismiss(False)", "Keep it"),
    ]

    def __init__(self, entry: HistoryEntry, *, is_sweep: bool = False) -> None:
        super().__init__()
        self._entry, self._is_sweep = entry, is_sweep

    def compose(self) -> ComposeResult:
        entry = self._entry
        with Vertical(classes="dialog"):
            yield Static(
                "Delete this sweep?  Its runs stay, as runs of one length."
                if self._is_sweep
                else "Delete this run?  Its figures, logs and note cannot be recovered.",
                markup=False,
                classes="lead",
            )
            yield Static(
                f"{entry.run_id}   {text.printable(entry.model, 40)}"
                f"   {text.printable(entry.device, 40)}",
                markup=False,
            )
            yield Static(text.printable(entry.note, 200), markup=False)
            yield Static("y    delete it\nesc  keep it", markup=False)
        yield KeyFooter()
