"""The answer for a GPU that is not attached, from a stored run or from published figures: where it comes from stands first."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.report import table
from advisor.report.document import RunDocument
from advisor.tui import text
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys


class Elsewhere(Frame):
    """The answer of p3-advisor recommend for such a GPU."""

    HELP_TEXT = """\
Nothing was measured on this machine. The first lines say from which run, of which day and which
machine the figures are, or that they are the paper's. r opens the stored run, where the weights can be moved; e writes
the answer as HTML, Markdown, CSV or JSON, as the ending of the file's name says."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "open",
            "Open the run",
            id="open",
            tooltip="the stored run that this answer rests on",
        ),
        Binding("e", "export", "Export", id="export"),
        Binding("n", "app.ask_anew", "New", id="new"),
        Binding("escape", "app.ask_anew", "Back", id="back", show=False),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, document: RunDocument) -> None:
        super().__init__()
        self._document = document

    def compose(self) -> ComposeResult:
        """Show the answer as text."""
        yield TopLine()
        lines = [text.plain(line, 600) for line in table.render(self._document).splitlines()]
        with VerticalScroll(id="body"):
            yield Static(Text("\n".join(lines[:2]), "bold"), markup=False)
            yield Static(Text("\n".join(lines[2:])), markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Say that nothing was measured here."""
        asked = self._document.question
        origin = (
            "from a stored run"
            if self._document.provenance is not None
            else "from published figures"
        )
        self.query_one(TopLine).tell(
            Text(f"Not measured here  {text.plain(asked.model.name, 30)}"), f"{origin} "
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Offer the run only where there is one."""
        return action != "open" or self._document.provenance is not None

    def action_open(self) -> None:
        """Open the stored run."""
        if self._document.provenance is not None:
            self.advisor.runs.open(self._document.provenance.run)

    def action_export(self) -> None:
        """Write the answer where the user says."""
        self.advisor.runs.export(self._document)
