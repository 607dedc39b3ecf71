"""The lines of the answer; the focus goes from line to line, and ? explains the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widgets import Static

from advisor.tui.rendering.answer_lines import LINE_TERMS, MOST_LINES, render_line


class AnswerPanel(VerticalScroll):
    """The labelled lines of an answer; they scroll where the terminal is too low for all."""

    HELP = "Up and down go through the lines of the answer; ? explains the terms of a line."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", show=False),
        Binding("down,j", "step(1)", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._lines: list[tuple[str, str]] = []
        self._line_index, self._is_short = 0, False
        #: What each row shows, because a changed row lays out the whole screen.
        self._drawn: dict[int, tuple[str, str, bool, bool]] = {}

    def compose(self) -> ComposeResult:
        for _ in range(MOST_LINES):
            yield Static("", classes="answer-line", markup=False)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # Textual measures the lines without the gutter of the scroll bar, in which they cannot be.
        return super().get_content_height(container, viewport, width - self.scrollbar_size_vertical)

    def show(self, lines: Sequence[tuple[str, str]], *, is_short: bool) -> None:
        """Show pairs of label and line; in a short terminal some lines do not wrap."""
        self._lines, self._is_short = list(lines)[:MOST_LINES], is_short
        self._line_index = min(self._line_index, max(len(lines) - 1, 0))
        self._draw()

    def _draw(self) -> None:
        for index, row in enumerate(self.query(".answer-line").results(Static)):
            row.display = index < len(self._lines)
            if row.display:
                is_marked = self.has_focus and index == self._line_index
                self._draw_row(index, row, is_marked=is_marked)
                if is_marked:
                    self.scroll_to_widget(row, animate=False)

    def _draw_row(self, index: int, row: Static, *, is_marked: bool) -> None:
        label, line = self._lines[index]
        drawn = (label, line, self._is_short, is_marked)
        if self._drawn.get(index) != drawn:
            self._drawn[index] = drawn
            row.update(render_line(label, line, is_short=self._is_short, is_marked=is_marked))

    def watch_has_focus(self, has_focus: bool) -> None:  # noqa: FBT001 - Textual's interface
        """Mark the line at the focus, or show the first line again."""
        super().watch_has_focus(has_focus)
        if not has_focus:
            self.scroll_home(animate=False)
        self._draw()

    def action_step(self, steps: int) -> None:
        """Go to the next line, or with -1 to the previous one; leave the panel after the last."""
        index = self._line_index + steps
        if index == len(self._lines):
            self.screen.focus_next()
            return
        self._line_index = max(index, 0)
        self._draw()

    def help_terms(self) -> tuple[str, ...]:
        """Return the terms of the line that has the focus."""
        return LINE_TERMS.get(self._lines[self._line_index][0], ()) if self._lines else ()
