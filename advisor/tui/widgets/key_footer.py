"""Show the keys of a screen in its last line: help first, the exits last, others as they fit.

If some do not fit, the label of the help says that it has more of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
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
        """Yield all hints in the order in which they are shown."""
        self._composed_bindings = self._bindings_to_show() if self._bindings_ready else []
        hints = [hint for hint in super().compose() if isinstance(hint, FooterKey)]
        ordered = [hints[index] for index in visible_hints(hint_texts(hints), sys.maxsize)]
        hide_excess_hints(ordered, self.app.size.width)
        yield from ordered

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Recompose the hints if they differ, because that lays out the whole screen."""
        if not self._bindings_ready or self._composed_bindings != self._bindings_to_show():
            super().bindings_changed(screen)

    def _bindings_to_show(self) -> list[object]:
        return [
            (active.binding, active.enabled)
            for active in self.screen.active_bindings.values()
            if active.binding.show
        ]

    def on_resize(self, event: events.Resize) -> None:
        hide_excess_hints(list(self.query(FooterKey)), event.size.width)


def hint_texts(hints: Sequence[FooterKey]) -> list[tuple[str, str]]:
    """Return the action and the text of each hint."""
    return [(hint.action, f"{hint.key_display} {hint.description}") for hint in hints]


def hide_excess_hints(hints: Sequence[FooterKey], width: int) -> None:
    """Hide the hints that do not fit into `width` cells, and label the help accordingly."""
    shown = visible_hints(hint_texts(hints), width)
    for index, hint in enumerate(hints):
        hint.display = index in shown
        if hint.action == HELP_ACTION:
            hint.description = HELP if len(shown) == len(hints) else MORE
            hint.refresh()


def visible_hints(hints: Sequence[tuple[str, str]], width: int) -> list[int]:
    """Return the indices of the hints that fit into `width` cells, in the order to show them.

    `hints` are pairs of action and text.
    """
    first = [index for index, (action, _) in enumerate(hints) if action == HELP_ACTION]
    # One key for each way out: a dialog has several keys that close it.
    exits = {action.partition("(")[0]: index for index, (action, _) in enumerate(hints)}
    last = [exits[action] for action in EXIT_ACTIONS if action in exits]
    between = [index for index in range(len(hints)) if index not in {*first, *last}]

    def needed(indices: list[int]) -> int:
        return sum(cell_len(hints[index][1]) + 1 for index in indices) - 1

    while between and needed([*first, *between, *last]) > width:
        between.pop()
    return [*first, *between, *last]
