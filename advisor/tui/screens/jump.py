"""A letter on everything that can have the focus; typing it moves there."""

from __future__ import annotations

import string
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static


class Jump(ModalScreen[None]):
    """The letters, above the screen they belong to."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+o", "dismiss", "Stay")]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._size = below.size
        seen = [widget for widget in below.focus_chain if widget.region]
        self.targets: dict[str, Widget] = dict(zip(string.ascii_lowercase, seen, strict=False))

    def compose(self) -> ComposeResult:
        """Put the letters where their targets are."""
        for letter, widget in self.targets.items():
            mark = Static(f" {letter} ", classes="jump", markup=False)
            mark.styles.offset = (widget.region.x, widget.region.y)
            yield mark

    def on_key(self, event: events.Key) -> None:
        """Move to the letter's target."""
        target = self.targets.get(event.key)
        if target is not None:
            event.stop()
            self.dismiss()
            target.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Go away: the targets are elsewhere now."""
        if event.size != self._size:
            self.dismiss()
