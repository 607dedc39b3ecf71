"""Show the code that does what was measured, to copy it or to write it to a file."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.tui.dialogs.questions import Dialog, FileDialog
from advisor.tui.rendering import text
from advisor.tui.widgets.key_footer import KeyFooter


class CodeDialog(Dialog[None]):
    """The recipe of one arm."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "Copy"),
        Binding("w", "write", "Write to a file"),
        Binding("escape,q", "dismiss", "Close"),
    ]

    def __init__(self, arm: str, code: str) -> None:
        super().__init__()
        self._arm, self._code = arm, code

    def compose(self) -> ComposeResult:
        shown = "\n".join(text.printable(line, 400) for line in self._code.splitlines())
        with VerticalScroll(classes="dialog"):
            yield Static(
                f"The code of {text.printable(self._arm, 60)}", markup=False, classes="lead"
            )
            yield Static(Text(shown, no_wrap=True), markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_copy(self) -> None:
        """Copy the code to the clipboard of the terminal (OSC 52)."""
        self.app.copy_to_clipboard(self._code)
        self.notify("copied, if the terminal allows it; w writes it to a file", markup=False)

    def action_write(self) -> None:
        self.app.push_screen(FileDialog("serve.py", [".py"], lambda _: self._code))
