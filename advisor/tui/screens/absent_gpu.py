"""Show the answer for a GPU that is not attached, from a stored run or published figures."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.domain.answer import Answer
from advisor.tui import answer_actions
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text
from advisor.tui.rendering.absent_gpu import render_absent_gpu
from advisor.tui.screens.advisor_screen import AdvisorScreen

#: Cells of padding and scrollbar.
MARGIN = 4


class AbsentGpuScreen(AdvisorScreen):
    """The answer of `p3-advisor recommend` for such a GPU; its first lines name the origin."""

    HELP_TEXT = """\
Nothing was measured on this machine. The first lines name the source of the figures: a stored run
with its date and machine, or a publication. r opens the stored run, where the weights can be
changed; e writes the answer as HTML, Markdown, CSV or JSON; the extension of the file selects the
format."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "open",
            "Open the run",
            id="open",
            tooltip="open the stored run that is the source of this answer",
        ),
        Binding("e", "export", "Export", id="export"),
        Binding("n", "app.new_question", "New", id="new"),
    ]

    def __init__(self, document: Answer) -> None:
        super().__init__()
        self._document = document

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="body"):
            yield Static("", id="absent-answer", markup=False)

    def draw(self) -> None:
        model = text.printable(self._document.question.model.name, 30)
        is_run = self._document.provenance is not None
        origin = "from a stored run " if is_run else "from published figures "
        self.set_title(Text(f"Not measured here  {model}"), origin)
        shown = render_absent_gpu(self._document, self.size.width - MARGIN)
        self.query_one("#absent-answer", Static).update(shown)

    def offers(self, action: str) -> bool:
        """Offer to open the run if the answer has one."""
        return action != "open" or self._document.provenance is not None

    def action_open(self) -> None:
        if self._document.provenance is not None:
            self.app.open_stored(self._document.provenance.run)

    def action_export(self) -> None:
        answer_actions.export(self.app, RunAnswer(self._document, self.app.catalogue))
