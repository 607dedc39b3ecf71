"""Show the answer for a GPU that is not attached, from a stored run or published figures."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from advisor.tui.rendering import text
from advisor.tui.screens.results import ResultsScreen


class AbsentGpuScreen(ResultsScreen):
    """The answer of `p3-advisor recommend` for such a GPU; its first line names the origin."""

    HELP_TEXT = """\
Nothing was measured on this machine. The first lines name the source of the figures: a stored run
with its date and machine, or a publication. r opens the stored run; e writes the answer as HTML,
Markdown, CSV or JSON; the extension of the file selects the format."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r",
            "open",
            "Open the run",
            id="open",
            tooltip="open the stored run that is the source of this answer",
        )
    ]

    @property
    def _run(self) -> str:
        """The id of the stored run; empty for published figures, whose answer names them."""
        found = self.original.document.provenance
        return found.run if found is not None else ""

    def draw(self) -> None:
        self.lead = "Not measured here. From a stored run: " if self._run else ""
        super().draw()
        model = text.printable(self.original.document.question.model.name, 30)
        origin = "from a stored run " if self._run else "from published figures "
        self.set_title(Text(f"Not measured here  {model}"), origin)

    def offers(self, action: str) -> bool:
        if action in {"open", "resume", "compare", "copy"}:
            return action == "open" and bool(self._run)
        return super().offers(action)

    def action_open(self) -> None:
        self.app.open_stored(self._run)

    def action_back(self) -> None:
        self.app.pop_screen()
