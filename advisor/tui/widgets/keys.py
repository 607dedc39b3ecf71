"""The line of keys at the bottom: help first, the way out last, and between them only what fits; the help has all."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

HELP = "help"
#: Actions that leave a screen or the program.
WAYS_OUT = ("app.leave", "app.pop_screen", "back", "dismiss")


class Keys(Footer):
    """Textual's footer, which would cut what does not fit without a sign."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._fitted_to = 0

    def compose(self) -> ComposeResult:
        """Make the hints that fit."""
        hints = [hint for hint in super().compose() if isinstance(hint, FooterKey)]
        self._fitted_to = self.app.size.width
        shown = fit([(hint.action, f"{hint.key_display} {hint.description}") for hint in hints], self._fitted_to)
        yield from (hints[place] for place in shown)

    def on_resize(self, event: events.Resize) -> None:
        """Choose again when the width is another."""
        if event.size.width not in {0, self._fitted_to}:
            self.call_after_refresh(self.recompose)


def fit(hints: Sequence[tuple[str, str]], width: int) -> list[int]:
    """Return the places of the hints to show, given as actions and words, in the order to show them."""
    first = [place for place, (action, _) in enumerate(hints) if action == HELP]
    last = [place for place, (action, _) in enumerate(hints) if action.partition("(")[0] in WAYS_OUT][-1:]
    between = [place for place in range(len(hints)) if place not in {*first, *last}]

    def needed(places: list[int]) -> int:
        return sum(cell_len(hints[place][1]) + 1 for place in places) - 1

    while between and needed([*first, *between, *last]) > width:
        between.pop()
    return [*first, *between, *last]
