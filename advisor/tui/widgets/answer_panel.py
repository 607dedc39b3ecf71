"""The lines of the answer; the focus goes from line to line, and ? explains the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from advisor.tui.rendering.answer_lines import LINE_TERMS, render_line


class AnswerPanel(OptionList):
    """The labelled lines of an answer; they scroll where the terminal is too low for all."""

    HELP = "Up and down go through the lines of the answer; ? explains the terms of a line."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, compact=True)
        self._shown: list[tuple[str, str]] = []
        self._is_short = False

    def show(self, lines: Sequence[tuple[str, str]], *, is_short: bool) -> None:
        """Show pairs of label and line; in a short terminal some lines do not wrap."""
        if (self._shown, self._is_short) != (list(lines), is_short):
            self._shown, self._is_short = list(lines), is_short
            self.set_options(render_line(*line, is_short=is_short) for line in lines)

    def on_focus(self) -> None:
        self.highlighted = self.highlighted or 0

    def on_blur(self) -> None:
        self.highlighted = None
        self.scroll_home(animate=False)

    def action_cursor_down(self) -> None:
        """Go to the next line; leave the panel after the last."""
        if self.highlighted == len(self._shown) - 1:
            self.screen.focus_next()
        else:
            super().action_cursor_down()

    def help_terms(self) -> tuple[str, ...]:
        return LINE_TERMS.get(self._shown[self.highlighted or 0][0], ()) if self._shown else ()
