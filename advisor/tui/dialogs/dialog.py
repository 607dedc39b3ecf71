"""The base of the dialogs."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Dialog(ModalScreen[ScreenResultType]):
    """A modal screen that closes once.

    Textual pops whatever screen is on top, so a key that is pressed twice quickly would close the
    screen below, too.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog; do nothing if it is closed already."""
        if not self.is_current:
            return AwaitComplete()
        return super().dismiss(result)
