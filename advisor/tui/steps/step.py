"""The base of the four questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message

from advisor.ask.answers import Answers
from advisor.errors import UserError

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


class Step(VerticalScroll, can_focus=False):
    """One question of the setup screen."""

    app: AdvisorApp
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "app.focus_previous", show=False),
        Binding("down,j", "app.focus_next", show=False),
    ]

    class Answered(Message):
        """The user confirmed the answer."""

    class Checked(Message):
        """The user left a field; `error` says what is wrong with the fields, None if nothing is."""

        def __init__(self, error: UserError | None) -> None:
            super().__init__()
            self.error = error

    @property
    def answers(self) -> Answers:
        return self.app.answers

    def change_answers(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Answers
        """Replace fields of the answers."""
        self.app.answers = msgspec.structs.replace(self.app.answers, **changes)

    def begin(self) -> None:
        """Show the current answers and take the focus."""

    def store_answers(self) -> None:
        """Store the entered values in the answers; raise `UserError` for an invalid value."""
