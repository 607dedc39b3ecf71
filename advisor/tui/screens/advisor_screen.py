"""The title bar, help, and minimum size that all screens share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from advisor.tui.rendering import text

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp

MIN_WIDTH, MIN_HEIGHT = 60, 16
#: Seconds between two looks at the state of the run that is going on.
STATUS_SECONDS = 1.0


class TitleBar(Static):
    """The first line: the title of the screen, and on the right the run that is going on."""

    app: AdvisorApp

    def __init__(self, *, shows_run: bool = True) -> None:
        super().__init__("", id="top", markup=False)
        self._left, self._right = Text(), ""
        self._shows_run, self._status = shows_run, ""

    def on_mount(self) -> None:
        if self._shows_run:
            self._look_at_run()
            self.set_interval(STATUS_SECONDS, self._look_at_run)

    def set_text(self, left: Text, right: str = "") -> None:
        """Show a title and a text on the right."""
        self._left, self._right = left, text.printable(right, 60)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _look_at_run(self) -> None:
        status = self.app.run_status()
        if status != self._status:
            self._status = status
            self._draw()

    def _draw(self) -> None:
        line = Text.assemble((" p3 ", "bold reverse"), " ", self._left, no_wrap=True)
        right = Text(self._status, "bold reverse") if self._status else Text(self._right)
        gap = self.size.width - line.cell_len - right.cell_len
        if gap <= 1 and self._status:
            line.truncate(max(self.size.width - right.cell_len - 1, 0), overflow="ellipsis")
            gap = self.size.width - line.cell_len - right.cell_len
        if gap > 0:
            line += Text(" " * gap) + right
        self.update(line, layout=False)


class AdvisorScreen(Screen[None]):
    """A screen with breakpoints, help, and a notice in terminals that are too small."""

    app: AdvisorApp

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-normal"), (140, "-wide")]  # noqa: RUF012 - Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012 - as above
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", id="help"),
        Binding("f1", "help", "Help", key_display="F1"),  # in inputs, ? is text
        Binding("ctrl+o", "jump", "Jump", show=False, priority=True, id="jump"),
    ]
    #: The description of the screen in the help.
    HELP_TEXT: ClassVar[str] = ""
    #: Terms of the glossary that the help of this screen explains first.
    TERMS: ClassVar[tuple[str, ...]] = ()

    def compose_too_small_notice(self) -> Static:
        """Return the notice that replaces the screen in a small terminal."""
        return Static("", id="too-small", markup=False)

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice if the terminal is too small."""
        width, height = event.size.width, event.size.height
        is_too_small = width < MIN_WIDTH or height < MIN_HEIGHT
        self.set_class(is_too_small, "-too-small")
        if is_too_small:
            for notice in self.query("#too-small").results(Static):
                notice.update(
                    f"The terminal is {width}x{height}.\n"
                    f"At least {MIN_WIDTH}x{MIN_HEIGHT} is needed (80x24 is recommended).\n"
                    "A run continues meanwhile."
                )

    def action_help(self) -> None:
        from advisor.tui.dialogs.help_dialog import HelpDialog  # noqa: PLC0415 - only when asked for

        self.app.push_screen(HelpDialog(self))

    def action_jump(self) -> None:
        """Label every focusable widget with a letter."""
        from advisor.tui.dialogs.jump_overlay import JumpOverlay  # noqa: PLC0415 - only when asked for

        self.app.push_screen(JumpOverlay(self))
