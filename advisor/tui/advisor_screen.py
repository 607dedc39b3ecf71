"""What all screens share: the title bar, the keys, help, and the minimum size."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from advisor.tui import panels
from advisor.tui.widgets import KeyFooter, bind

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp

MIN_WIDTH, MIN_HEIGHT = 60, 16
#: Cells of the first line that are left to the title.
TITLE_WIDTH = 16
#: Seconds between two looks at the state of the run that is going on.
STATUS_SECONDS = 1.0


class TitleBar(Horizontal):
    """The first line: the title of the screen, and on the right the run that is going on."""

    app: AdvisorApp

    def __init__(self) -> None:
        # Not queried: the timer may fire while the screen and its widgets are removed.
        self._title = Static("", id="title", markup=False)
        self._status = Static("", id="status", markup=False)
        super().__init__(self._title, self._status, id="top")
        self._right = ""

    def on_mount(self) -> None:
        self._draw_status()
        self.set_interval(STATUS_SECONDS, self._draw_status)

    def set_text(self, left: Text, right: str = "") -> None:
        self._title.update(Text.assemble((" p3 ", "bold reverse"), " ", left), layout=False)
        self._right = panels.printable(right, self.app.size.width - TITLE_WIDTH)
        self._draw_status()

    def _draw_status(self) -> None:
        shown = Text.assemble(" ", self._right, " ", (self.app.run_status(), "bold reverse"))
        self._status.update(shown)


class AdvisorScreen(Screen[None]):
    """A screen between the title bar and the keys; a notice replaces it in small terminals."""

    app: AdvisorApp
    HORIZONTAL_BREAKPOINTS = [(0, "-too-narrow"), (MIN_WIDTH, "-narrow"), (120, "-wide")]  # noqa: RUF012 - Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-too-low"), (MIN_HEIGHT, "-flat"), (20, "-short"), (30, "-tall")]  # noqa: RUF012 - as above
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("question_mark", "help", "Help"),
        Binding("f1", "help", "Help", key_display="F1"),  # where ? is text
        bind("escape", "back", "Back"),
        bind("q", "app.leave", "Quit"),
    ]
    HELP_TEXT: ClassVar[str] = ""
    #: Terms of the glossary that the help of this screen explains first.
    TERMS: ClassVar[tuple[str, ...]] = ()

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield from self.compose_body()
        yield Static("", id="too-small", markup=False)
        yield KeyFooter()

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between the title bar and the keys."""
        yield from ()

    def draw(self) -> None:
        """Show the present values at the present size; called when the size changes."""

    def set_title(self, left: Text, right: str = "") -> None:
        self.query_one(TitleBar).set_text(left, right)

    def on_resize(self, event: events.Resize) -> None:
        for notice in self.query("#too-small").results(Static):
            notice.update(
                f"The terminal is {event.size.width}x{event.size.height}.\n"
                f"At least {MIN_WIDTH}x{MIN_HEIGHT} is needed (80x24 is recommended).\n"
                "A run continues meanwhile."
            )
        self.call_after_refresh(lambda: self.draw() if self.is_attached else None)

    def refusal_of(self, action: str) -> str:  # noqa: ARG002 - of actions of other screens
        """Return why an action is not possible now, which hides its keys; empty if it is."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        return not self.is_mounted or not self.refusal_of(action)

    def on_key(self, event: events.Key) -> None:
        """Say why a key of this screen has no effect now."""
        bindings = self._bindings.key_to_bindings.get(event.key, [])
        refusals = [self.refusal_of(each.action) for each in bindings]
        if bindings and all(refusals):
            what = bindings[0].tooltip or bindings[0].description.lower()
            self.notify(f"{what}: {refusals[0]}", timeout=3)

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_help(self) -> None:
        from advisor.tui.dialogs import HelpDialog

        self.app.push_screen(HelpDialog(self))
