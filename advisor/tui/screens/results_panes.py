"""The answer above the ranking, and the panes below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import OptionList, Static, TabbedContent, TabPane
from textual.widgets._tabbed_content import ContentTabs

from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import panes
from advisor.tui.rendering.answer_lines import LINE_TERMS, render_line
from advisor.tui.widgets.weights import Weights

#: Panes by id; their numbers are the keys that show them.
PANES = {
    "why": "Why",
    "weights": "Weights",
    "trust": "Trust",
    "next": "Next",
    "unmeasured": "Not measured",
}
TEXT_PANES = {
    "why": panes.render_why,
    "trust": panes.render_trust,
    "next": panes.render_next,
    "unmeasured": panes.render_unmeasured,
}


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


class TextPane(VerticalScroll):
    """A pane of text that scrolls."""

    HELP = "Up and down scroll. tab goes to the next pane, a number to the pane of that number."
    #: Terms of the glossary by pane.
    TERMS: ClassVar[dict[str, tuple[str, ...]]] = {
        "why": ("criterion", "grade", "score", "declared", "new shapes"),
        "trust": ("trust", "certainty", "noise floor", "interval"),
        "next": ("budget", "trust"),
        "unmeasured": ("outcome", "constraint", "not covered"),
    }

    def __init__(self, pane: str) -> None:
        super().__init__()
        self._pane = pane

    def compose(self) -> ComposeResult:
        yield Static("", id=f"text-{self._pane}", markup=False)

    def help_terms(self) -> tuple[str, ...]:
        return self.TERMS[self._pane]


class ResultsPanes(Vertical):
    """The panes of an answer in tabs."""

    def __init__(self, answer: RunAnswer) -> None:
        super().__init__()
        self._first = self._answer = answer
        #: The id of the pane that is shown.
        self.shown = "why"

    def compose(self) -> ComposeResult:
        with TabbedContent(id="panes"):
            for number, (pane, title) in enumerate(PANES.items(), 1):
                with TabPane(f"{number} {title}", id=pane):
                    if pane in TEXT_PANES:
                        yield TextPane(pane)
                    else:
                        yield Weights(self._first.priorities)
                        yield Static("", id="weights-note", markup=False)

    def on_mount(self) -> None:
        self.query_one(ContentTabs).can_focus = False  # tab and numbers go to the panes

    def show(self, pane: str) -> None:
        self.shown = pane
        self._draw_text(pane)
        self.query_one(TabbedContent).active = pane
        kind = "WeightBar" if pane == "weights" else "TextPane"
        self.query(f"#{pane} {kind}").first().focus()

    def draw(self, answer: RunAnswer) -> None:
        self._answer = answer
        self._draw_text(self.shown)
        self.query_one("#weights-note", Static).update(panes.describe_weights(answer))
        tab = self.query_one(TabbedContent).get_tab("unmeasured")
        tab.label = f"5 {PANES['unmeasured']} ({panes.count_unmeasured(answer)})"
        advice = answer.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())

    def _draw_text(self, pane: str) -> None:
        if pane in TEXT_PANES:
            self.query_one(f"#text-{pane}", Static).update(TEXT_PANES[pane](self._answer))
