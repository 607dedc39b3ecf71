"""Choose one of a few values on one line.

The chosen value is in brackets, so that it is recognizable without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

LABEL_WIDTH = 21


class Choice(Widget, can_focus=True):
    """A label followed by its values."""

    HELP = "Left and right, or space, choose a value; up and down go to the next line."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", show=False),
        Binding("right,l,space", "move(1)", show=False),
        Binding("up,k", "app.focus_previous", show=False),
        Binding("down,j", "app.focus_next", show=False),
    ]
    chosen: reactive[int] = reactive(0)

    class Chosen(Message):
        """The user chose another value."""

        def __init__(self, choice: Choice, value: str) -> None:
            super().__init__()
            self.choice, self.value = choice, value

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(
        self,
        label: str,
        values: Sequence[tuple[str, str]],
        value: str,
        *,
        id: str,  # noqa: A002 - Textual's word
    ) -> None:
        super().__init__(id=id)
        self.label = label
        self.set_values(values, value)

    @property
    def value(self) -> str:
        """The chosen value."""
        return self.values[self.chosen][0]

    def set_values(self, values: Sequence[tuple[str, str]], value: str) -> None:
        """Show pairs of value and label, with `value` chosen; sends no message."""
        self.values = list(values)
        known = [name for name, _ in self.values]
        self.set_reactive(Choice.chosen, known.index(value) if value in known else 0)
        self.refresh()

    def set_value(self, value: str) -> None:
        """Show `value` as chosen; sends no message."""
        self.set_values(self.values, value)

    def render(self) -> RenderResult:
        mark = ">" if self.has_focus else " "
        text = Text(
            f"{mark} {self.label:<{LABEL_WIDTH}}",
            no_wrap=True,
            style="bold" if self.has_focus else "",
        )
        segments = self._segments()
        if not segments:
            # Not all values fit: show only the chosen one and its position.
            return text.append(f"[{self.values[self.chosen][1]}]", "bold").append(
                f"  {self.chosen + 1} of {len(self.values)}", "dim"
            )
        for index, segment in enumerate(segments):
            text.append(segment, "bold" if index == self.chosen else "dim")
        return text

    def _segments(self) -> list[str]:
        """Return what is drawn for each value, with less space where it is needed.

        Return an empty list if the values do not fit.
        """
        labels = [label for _, label in self.values]
        room = self.size.width - LABEL_WIDTH - 2
        for chosen, other in (("[{}] ", " {}  "), ("[{}]", " {}")):
            segments = [
                (chosen if index == self.chosen else other).format(label)
                for index, label in enumerate(labels)
            ]
            if sum(map(len, segments)) <= room:
                return segments
        return []

    def action_move(self, steps: int) -> None:
        """Choose the next value, or with -1 the previous one."""
        self._choose((self.chosen + steps) % len(self.values))

    def on_click(self, event: events.Click) -> None:
        """Choose the value under the mouse."""
        end = LABEL_WIDTH + 2
        for index, segment in enumerate(self._segments()):
            end += len(segment)
            if LABEL_WIDTH + 2 <= event.x < end:
                self._choose(index)
                return

    def _choose(self, index: int) -> None:
        if index != self.chosen:
            self.chosen = index
            self.post_message(self.Chosen(self, self.value))
