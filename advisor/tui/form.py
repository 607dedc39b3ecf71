"""The base of the four questions, and the lines of their forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Select
from textual.widgets._select import NULL, NoSelection

from advisor.ask.run_options import RunOptions
from advisor.domain.errors import UserError
from advisor.tui.widgets import bind

if TYPE_CHECKING:
    from advisor.tui.app import AdvisorApp


class Field(Horizontal):
    """One line of a form; its id is that of the answer after `field-`."""

    def __init__(self, label: str, answer: Widget) -> None:
        super().__init__(Label(label, markup=False), answer, id=f"field-{answer.id}")


class Choice(Select[str], inherit_bindings=False):
    """One of a few values; enter is left to the screen, and goes on with the default."""

    HELP = "Left and right choose a value, space lists all; up and down go to the next line."
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("left", "step(-1)"),
        bind("right", "step(1)"),
        bind("space", "show_overlay", "List", "list all values"),
    ]

    def __init__(
        self,
        values: Iterable[tuple[str, str]],
        value: str,
        *,
        id: str,  # noqa: A002 - Textual's word
    ) -> None:
        """`values` are pairs of value and label."""
        self.values: list[str] = []
        super().__init__(
            self._options_of(values), allow_blank=False, value=value, id=id, compact=True
        )

    def _options_of(self, values: Iterable[tuple[str, str]]) -> list[tuple[Text, str]]:
        options = [(Text(label), value) for value, label in values]
        self.values = [value for _, value in options]
        return options

    @property
    def chosen(self) -> str:
        return self.selection or ""

    def _init_selected_option(self, hint: str | NoSelection = NULL) -> None:
        """Send no message about a value that the user has not chosen."""
        with self.prevent(Select.Changed):
            super()._init_selected_option(hint)

    def set_values(self, values: Iterable[tuple[str, str]], value: str) -> None:
        """Show other pairs of value and label; sends no message."""
        self.set_options(self._options_of(values))
        with self.prevent(Select.Changed):
            self.value = value
            self._watch_value(value)  # draws the label of a value that stays

    def choose(self, value: str) -> None:
        """Show a value as chosen; sends no message."""
        with self.prevent(Select.Changed):
            self.value = value

    def action_step(self, steps: int) -> None:
        self.value = self.values[(self.values.index(self.chosen) + steps) % len(self.values)]


class AnswerInput(Input):
    HELP = "Type the answer; an empty input stands for the grey text. Enter goes to the next step."
    BINDINGS: ClassVar[list[BindingType]] = [bind("enter", "submit", "Next")]

    async def on_key(self, event: events.Key) -> None:
        """Obey the keys of this input at once, not after the characters that are typed next."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()


class Step(VerticalScroll, can_focus=False):
    app: AdvisorApp
    _asked_model: str | None = None
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("up,k", "app.focus_previous"),
        bind("down,j", "app.focus_next"),
    ]

    class Answered(Message):
        """The user confirmed the answer."""

    class Validated(Message):
        """The user left or changed a field; `error` says what is wrong, None if nothing is."""

        def __init__(self, error: UserError | None) -> None:
            super().__init__()
            self.error = error

    @property
    def run_options(self) -> RunOptions:
        return self.app.run_options

    def change_options(self, **changes: Any) -> None:  # noqa: ANN401 - fields of RunOptions
        self.app.run_options = msgspec.structs.replace(self.app.run_options, **changes)

    def on_input_submitted(self) -> None:
        self.post_message(self.Answered())

    def is_about_another_model(self) -> bool:
        """Return whether the model has changed since the previous call."""
        before, self._asked_model = self._asked_model, self.run_options.model
        return before not in {None, self._asked_model}

    def begin(self) -> None:
        """Show the current options and take the focus."""

    def store_options(self) -> None:
        """Store the entered values in the options; raise `UserError` for an invalid value."""
