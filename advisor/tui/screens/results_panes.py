"""The panes below the ranking: their names, and the one that is shown."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import ContentSwitcher, Static

from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import panes
from advisor.tui.widgets.chart_view import ChartView
from advisor.tui.widgets.pane_bar import PaneBar
from advisor.tui.widgets.weights import Weights

CHARTS = "charts"
#: Panes by id; their numbers are the keys that show them.
PANES = {
    "why": "Why",
    "weights": "Weights",
    "trust": "Trust",
    "next": "Next",
    "unmeasured": "Not measured",
    CHARTS: "Charts",
}
TEXT_PANES = {
    "why": panes.render_why,
    "trust": panes.render_trust,
    "next": panes.render_next,
    "unmeasured": panes.render_unmeasured,
}


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

    def help_terms(self) -> tuple[str, ...]:
        """Return the terms that explain this pane."""
        return self.TERMS[str(self.id)]


class ResultsPanes(Vertical):
    """The names of the panes, the pane that is shown, and in wide terminals a chart."""

    def __init__(self, answer: RunAnswer) -> None:
        super().__init__()
        self._first = self._answer = answer
        #: Panes of text that show an earlier answer; they are drawn when they are shown.
        self._stale = set(TEXT_PANES)

    def compose(self) -> ComposeResult:
        yield PaneBar(PANES, "why")
        with Horizontal(id="lower"):
            with ContentSwitcher(initial="why", id="panes"):
                for pane in TEXT_PANES:
                    with TextPane(id=pane):
                        yield Static("", id=f"text-{pane}", markup=False)
                with Vertical(id="weights"):
                    yield Weights(self._first.priorities, id="bars", takes_digits=False)
                    yield Static("", id="weights-note", markup=False)
                yield ChartView(self._first, id=CHARTS)
            yield ChartView(self._first, id="side-chart")

    @property
    def active(self) -> str:
        """The id of the pane that is shown."""
        return self.query_one(PaneBar).active

    def show(self, pane: str) -> None:
        """Show a pane and move the focus there."""
        self._draw_text(pane)
        self.query_one(PaneBar).active = pane
        self.query_one(ContentSwitcher).current = pane
        self.query_one("#weight-performance" if pane == "weights" else f"#{pane}").focus()

    def draw(self, answer: RunAnswer) -> None:
        """Show the reasons, the weights and the pictures of an answer."""
        self._answer, self._stale = answer, set(TEXT_PANES)
        self._draw_text(self.active)
        self.query_one("#weights-note", Static).update(panes.describe_weights(answer))
        unmeasured = panes.count_unmeasured(answer)
        self.query_one(PaneBar).set_title("unmeasured", f"{PANES['unmeasured']} ({unmeasured})")
        advice = answer.recommendation
        self.query_one(Weights).set_flips(advice.flips if advice else ())
        for chart in self.query(ChartView):
            chart.show(answer)

    def _draw_text(self, pane: str) -> None:
        if pane in self._stale:
            self._stale.discard(pane)
            self.query_one(f"#text-{pane}", Static).update(TEXT_PANES[pane](self._answer))
