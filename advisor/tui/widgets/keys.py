"""The line of keys at the bottom: help first, the way out last, and between them only what fits; the help has all."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

HELP = "help"
#: Actions that leave a screen or the program.
WAYS_OUT = ("app.leave", "app.pop_screen", "back", "dismiss")


class Keys(Footer):
    """Textual's footer, which would cut what does not fit without a sign."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._made_of: list[object] = []

    def compose(self) -> ComposeResult:
        """Make all hints in their order; those that do not fit stay hidden."""
        self._made_of = self._bindings_to_show() if self._bindings_ready else []
        hints = [hint for hint in super().compose() if isinstance(hint, FooterKey)]
        ordered = [hints[place] for place in fit(words_of(hints), sys.maxsize)]
        show_what_fits(ordered, self.app.size.width)
        yield from ordered

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Make the hints anew, unless they would be the same: the whole screen would be laid out for nothing."""
        if not self._bindings_ready or self._made_of != self._bindings_to_show():
            super().bindings_changed(screen)

    def _bindings_to_show(self) -> list[object]:
        return [
            (active.binding, active.enabled)
            for active in self.screen.active_bindings.values()
            if active.binding.show
        ]

    def on_resize(self, event: events.Resize) -> None:
        """Choose again for the width."""
        show_what_fits(list(self.query(FooterKey)), event.size.width)


def words_of(hints: Sequence[FooterKey]) -> list[tuple[str, str]]:
    """Return the action of each hint, and what it says."""
    return [(hint.action, f"{hint.key_display} {hint.description}") for hint in hints]


def show_what_fits(hints: Sequence[FooterKey], width: int) -> None:
    """Hide the hints that do not fit."""
    shown = fit(words_of(hints), width)
    for place, hint in enumerate(hints):
        hint.display = place in shown


def fit(hints: Sequence[tuple[str, str]], width: int) -> list[int]:
    """Return the places of the hints to show, given as actions and words, in the order to show them."""
    first = [place for place, (action, _) in enumerate(hints) if action == HELP]
    last = [
        place for place, (action, _) in enumerate(hints) if action.partition("(")[0] in WAYS_OUT
    ][-1:]
    between = [place for place in range(len(hints)) if place not in {*first, *last}]

    def needed(places: list[int]) -> int:
        return sum(cell_len(hints[place][1]) + 1 for place in places) - 1

    while between and needed([*first, *between, *last]) > width:
        between.pop()
    return [*first, *between, *last]
