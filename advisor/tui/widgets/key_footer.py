"""Show the keys of a screen in its last line: help first, the exits last, others as they fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

HELP_ACTION = "help"
#: Labels of the help, which lists all keys: while the footer shows all of them, and while not.
HELP, MORE = "Help", "More"
#: Actions that close a screen or the program, in the order in which their keys are shown.
EXIT_ACTIONS = ("back", "app.pop_screen", "app.home", "dismiss", "app.leave")


class KeyFooter(Footer):
    """A footer that hides the keys that do not fit; Textual's footer would cut them off."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._composed_bindings: list[object] = []

    def compose(self) -> ComposeResult:
        self._composed_bindings = self._bindings_to_show() if self._bindings_ready else []
        hints = [hint for hint in super().compose() if isinstance(hint, FooterKey)]
        hints.sort(key=_place)
        hide_excess_hints(hints, self.app.size.width)
        yield from hints

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Recompose the hints if they differ, because that lays out the whole screen."""
        if not self._bindings_ready or self._composed_bindings != self._bindings_to_show():
            super().bindings_changed(screen)

    def _bindings_to_show(self) -> list[object]:
        active = self.screen.active_bindings.values()
        return [(each.binding, each.enabled) for each in active if each.binding.show]

    def on_resize(self) -> None:
        hide_excess_hints(list(self.query(FooterKey)), self.app.size.width)


def _place(hint: FooterKey) -> int:
    if hint.action in EXIT_ACTIONS:
        return 1 + EXIT_ACTIONS.index(hint.action)
    return -1 if hint.action == HELP_ACTION else 0


def hide_excess_hints(hints: Sequence[FooterKey], width: int) -> None:
    """Hide the last of the hints between help and exits that do not fit into `width` cells.

    The label of the help says whether it has more of them.
    """
    cells = [cell_len(f"{hint.key_display} {hint.description} ") for hint in hints]
    room = width + 1 - sum(cells)
    for index, hint in reversed(list(enumerate(hints))):
        hint.display = room >= 0 or _place(hint) != 0
        if not hint.display:
            room += cells[index]
    label = HELP if all(hint.display for hint in hints) else MORE
    for hint in hints:
        if hint.action == HELP_ACTION:
            hint.description = label
            hint.refresh()
