"""Label every focusable widget with a letter that moves the focus there."""

from __future__ import annotations

import string
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from advisor.tui.dialogs.questions import Dialog


class JumpOverlay(Dialog[None]):
    """The letters, drawn over the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+o", "dismiss", "Stay")]

    def __init__(self, below: Screen[None]) -> None:
        super().__init__()
        self._size = below.size
        visible = [widget for widget in below.focus_chain if widget.region]
        self.targets: dict[str, Widget] = dict(zip(string.ascii_lowercase, visible, strict=False))

    def compose(self) -> ComposeResult:
        for letter, widget in self.targets.items():
            label = Static(f" {letter} ", classes="jump", markup=False)
            label.styles.offset = (widget.region.x, widget.region.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        target = self.targets.get(event.key)
        if target is not None:
            event.stop()
            self.dismiss()
            target.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Close after a resize, because the targets have moved."""
        if event.size != self._size:
            self.dismiss()
