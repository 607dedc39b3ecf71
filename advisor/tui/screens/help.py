"""Help for the screen below: what it shows and its keys."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

GENERAL = """\
?  F1        this help              ctrl+p  all commands
esc          up one level           q  ctrl+q  quit
arrows hjkl  move                   tab     next part
ctrl+o       jump to any part       y       copy, where there is something to copy
"""
WORDS = """\
Tiers        A best, B, C least. Trust: A to D, how far the measurement can be relied on.
Verdicts     PROVEN every rival is slower; TIE slower or as fast; SAFE none can be faster
             by more than the margin; INCONCLUSIVE the noise hides who is fastest.
Noise floor  the most that two equal processes may differ by here.
Phases       queued, start, import, imported, load, compile, correctness, warm-up, ready,
             measure, done.
"""


class Help(ModalScreen[None]):
    """The help."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,f1,q,enter", "dismiss", "Close")]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        """Show the words of the screen below, then those for all screens."""
        with VerticalScroll(classes="dialog"):
            yield Static(Text(" ".join(getattr(self._below, "HELP_TEXT", "").split()) + "\n"), markup=False)
            yield Static(Text("Keys of this screen", style="bold"), markup=False)
            yield Static(self._keys(), markup=False)
            yield Static(Text("\nEverywhere", style="bold"), markup=False)
            yield Static(GENERAL, markup=False)
            yield Static(Text("Words", style="bold"), markup=False)
            yield Static(WORDS, markup=False)

    def _keys(self) -> Text:
        lines = []
        for active in self._below.active_bindings.values():
            binding = active.binding
            ours = type(active.node).__module__.startswith("advisor.") and active.node is not self.app
            if ours and binding.action != "help" and (binding.show or active.tooltip):
                lines.append(f"{self.app.get_key_display(binding):<12} {active.tooltip or binding.description}")
        return Text("\n".join(dict.fromkeys(lines)))
