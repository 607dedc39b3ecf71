"""Modal questions that the user answers with one key or one line of text."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input, Static

from advisor.domain.machine import QuietProblem
from advisor.errors import UserError
from advisor.store.runs import HistoryEntry
from advisor.system import write_atomically
from advisor.text_format import escape_control_chars
from advisor.tui import text
from advisor.tui.widgets import KeyFooter

#: Longest wait for a quiet machine.
WAIT_SECONDS = 300.0
PROBLEMS: dict[QuietProblem, str] = {
    "cpu-busy": "other processes keep processors busy",
    "cpu-stolen": "the hypervisor takes processor time",
    "gpu-processes": "other processes use the GPU",
    "gpu-busy": "the GPU is busy",
    "gpu-clocks-held-down": "heat or a fault holds the clocks of the GPU down",
}


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen that closes once.

    Textual pops whatever screen is on top, so a key that is pressed twice quickly would close the
    screen below, too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog; do nothing if it is closed already."""
        if not self.is_current:
            return AwaitComplete()
        return super().dismiss(result)


class Question(Dialog[ScreenResultType]):
    """A question and what its answers mean; a subclass has the keys."""

    def __init__(self, question: str, details: str) -> None:
        super().__init__()
        self._question, self._details = question, details

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False, classes="lead")
            yield Static(self._details, markup=False)
        yield KeyFooter()


class QuitDialog(Question[str]):
    """Asks what to do with a run in progress; returns `keep`, `cancel`, or an empty text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "dismiss('keep')", "Keep it running"),
        Binding("c", "dismiss('cancel')", "Cancel it"),
        Binding("escape", "dismiss('')", "Stay"),
    ]

    def __init__(self, run_status: str) -> None:
        super().__init__(
            f"Quit?  {text.printable(run_status, 60)}",
            "k    quit and keep the run: open it later from the history\n"
            "c    quit and cancel the run: its measurements are kept,"
            " p3-advisor resume continues it\n"
            "esc  stay",
        )


class CancelDialog(Question[bool]):
    """Asks whether to end the run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,x", "dismiss(True)", "Cancel the run"),
        Binding("escape,n", "dismiss(False)", "Continue"),
    ]

    def __init__(self) -> None:
        super().__init__(
            "Cancel this run?  Its measurements are kept, and it can be resumed.",
            "y    cancel the run\nesc  continue",
        )


class DeleteDialog(Question[bool]):
    """Asks whether to delete a stored run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Delete it"),
        Binding("escape,n", "dismiss(False)", "Keep it"),
    ]

    def __init__(self, entry: HistoryEntry) -> None:
        super().__init__(
            "Delete this run?  Its figures, logs and note cannot be recovered.",
            f"{entry.run_id}   {text.printable(entry.model, 40)}"
            f"   {text.printable(entry.device, 40)}\n"
            f"{text.printable(entry.note, 200)}\n"
            "y    delete it\nesc  keep it",
        )


class CommandDialog(Question[bool]):
    """Asks whether to run a command of this program, which takes over the terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Run it"),
        Binding("escape,n", "dismiss(False)", "Not now"),
    ]

    def __init__(self, question: str, details: str, arguments: Sequence[str]) -> None:
        command = text.printable(" ".join(("p3-advisor", *arguments)), 200)
        super().__init__(question, f"{details}\n\ny    run {command}\nesc  not now")


class LoadDialog(Question[float]):
    """Returns the seconds to wait for a quiet machine, 0 to start at once; None for no start."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,enter", f"dismiss({WAIT_SECONDS})", "Wait"),
        Binding("s", "dismiss(0.0)", "Start now"),
        Binding("escape", "dismiss(None)", "Do not start"),
    ]

    def __init__(self, problems: Sequence[QuietProblem]) -> None:
        super().__init__(
            f"This machine is busy: {'; '.join(PROBLEMS[problem] for problem in problems)}.",
            "Times that are measured now may not decide anything.\n\n"
            f"w    wait at most {WAIT_SECONDS / 60:.0f} minutes until it is quiet\n"
            "s    start now\n"
            "esc  do not start",
        )


class LineInput(Input):
    """An input whose key is shown in the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Save")]


class NoteDialog(Dialog[str | None]):
    """Asks for a note; returns it, or None if the dialog is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(self, run_id: str, note: str) -> None:
        super().__init__()
        self._run_id, self._note = run_id, note

    def compose(self) -> ComposeResult:
        lead = f"Note on run {self._run_id}; an empty note is removed."
        with Vertical(classes="dialog"):
            yield Static(lead, markup=False, classes="lead")
            yield LineInput(self._note, placeholder="for example: before the driver was updated")
        yield KeyFooter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class FileDialog(Dialog[None]):
    """Asks for a file, and again before it overwrites one, then writes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close")]

    def __init__(
        self,
        name: str,
        extensions: Sequence[str],
        make_content: Callable[[str], str],
    ) -> None:
        """Propose the file `name` in the current directory.

        `make_content` returns the content for the extension of the file.
        """
        super().__init__()
        self._proposed, self._extensions = pathlib.Path.cwd() / name, extensions
        self._make_content, self._overwrite_confirmed = make_content, ""

    def compose(self) -> ComposeResult:
        extensions = ", ".join(self._extensions)
        lead = f"Export this run.  The extension selects the format: {extensions}"
        with Vertical(classes="dialog"):
            yield Static(lead, markup=False, classes="lead")
            yield LineInput(str(self._proposed))
            yield Static("", id="note", markup=False)
        yield KeyFooter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Write the file, or show why it is not written yet."""
        name = event.value.strip()
        file = pathlib.Path(name).expanduser()
        if not name or file.is_dir() or not file.parent.is_dir():
            note = "name a file in a directory that exists"
        elif file.suffix.lower() not in self._extensions:
            note = f"use one of the extensions {', '.join(self._extensions)}"
        elif file.exists() and self._overwrite_confirmed != name:
            self._overwrite_confirmed = name
            note = "that file exists; press enter again to overwrite it"
        else:
            note = self._write(file)
        self.query_one("#note", Static).update(note)

    def _write(self, file: pathlib.Path) -> str:
        """Write the file and close the dialog; return why it is not written."""
        try:
            content = escape_control_chars(self._make_content(file.suffix.lower()))
            write_atomically(file, content.encode())
        except OSError as problem:
            return f"not written: {problem.strerror}; name another file"
        except UserError as error:
            return text.printable(f"{error.what}; next: {error.next_step}", 600)
        self.dismiss()
        self.notify(f"written: {file.absolute()}", markup=False)
        return ""
