"""An input for one answer, which is checked when the focus leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from advisor.errors import UserError

#: Raises a `UserError` for a text that is not a valid answer.
Check = Callable[[str], object]


class AnswerInput(Input):
    """The input for one answer."""

    HELP = "Type the answer; an empty input stands for the grey text. Enter goes to the next step."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Next"),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    class Checked(Message):
        """The user left the field; `error` says what is wrong with its text."""

        def __init__(self, field: AnswerInput, error: UserError | None) -> None:
            super().__init__()
            self.field, self.error = field, error

    def __init__(
        self,
        value: str,
        *,
        placeholder: str,
        id: str,  # noqa: A002 - Textual's word
        check: Check | None = None,
    ) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True)
        self._check = check

    @property
    def is_shown(self) -> bool:
        """Whether the line of the field is shown."""
        return all(node.display for node in self.ancestors_with_self if isinstance(node, Widget))

    def find_error(self) -> UserError | None:
        """Return what is wrong with the text; None for a valid or an empty one."""
        typed = self.value.strip()
        if not typed or self._check is None:
            return None
        try:
            self._check(typed)
        except UserError as error:
            return error
        return None

    def on_blur(self) -> None:
        """Check the text."""
        self.post_message(self.Checked(self, self.find_error()))
