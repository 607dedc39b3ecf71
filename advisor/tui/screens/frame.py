"""What all screens share: the line at the top, the keys at the bottom, help, and what is shown when the terminal is too small."""

from __future__ import annotations

from typing import ClassVar, cast

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from advisor.tui import text
from advisor.tui.interfaces import Advisor

LEAST_WIDTH, LEAST_HEIGHT = 60, 16


class TopLine(Static):
    """Where the user is, and on the right what the run does."""

    def __init__(self) -> None:
        super().__init__("", id="top", markup=False)
        self._left, self._right = Text(), ""

    def tell(self, left: Text, right: str = "") -> None:
        """Show both ends."""
        self._left, self._right = left, text.plain(right, 60)
        self._draw()

    def on_resize(self) -> None:
        """Fit the width."""
        self._draw()

    def _draw(self) -> None:
        line = Text(" p3 ", style="bold reverse", no_wrap=True) + Text(" ") + self._left
        gap = self.size.width - line.cell_len - len(self._right)
        if gap > 1:
            line += Text(" " * gap + self._right)
        self.update(line, layout=False)


class Frame(Screen[None]):
    """A screen with breakpoints, help and a guard against terminals that are too small."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-normal"), (140, "-wide")]  # noqa: RUF012 - Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012 - as above
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", id="help"),
        Binding("f1", "help", "Help", key_display="F1"),  # where ? is text
        Binding("ctrl+o", "jump", "Jump", show=False, priority=True, id="jump"),
    ]
    #: What the help says about this screen.
    HELP_TEXT: ClassVar[str] = ""

    @property
    def advisor(self) -> Advisor:
        """The app."""
        return cast("Advisor", self.app)

    def compose_too_small(self) -> Static:
        """Return what stands in for the screen when it has no room."""
        return Static("", id="too-small", markup=False)

    def on_resize(self, event: events.Resize) -> None:
        """Say so when there is no room."""
        width, height = event.size.width, event.size.height
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(small, "-too-small")
        if small:
            words = f"Terminal {width}x{height}.\nNeeds {LEAST_WIDTH}x{LEAST_HEIGHT} (80x24 is comfortable).\nA run goes on meanwhile."
            for notice in self.query("#too-small").results(Static):
                notice.update(words)

    def action_help(self) -> None:
        """Show the help."""
        from advisor.tui.screens.help import Help  # noqa: PLC0415 - only when asked for

        self.app.push_screen(Help(self))

    def action_jump(self) -> None:
        """Put a letter on everything that can have the focus."""
        from advisor.tui.screens.jump import Jump  # noqa: PLC0415 - only when asked for

        self.app.push_screen(Jump(self))
