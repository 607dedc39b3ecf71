"""Show one of the pictures of a run; arrows change which."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.widget import Widget

from advisor.tui.answer import RunAnswer
from advisor.tui.rendering.charts import NO_CHART, charts_of


class ChartView(Widget, can_focus=True):
    """A picture of the answer."""

    HELP = """\
Left and right show the previous and the next picture: speed by batch size, speed against build
time, and which arm leads at which weights. The legend names the marks, which are the ranks."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Previous chart"),
        Binding("right,l,space", "step(1)", "Next chart"),
    ]
    number: reactive[int] = reactive(0)

    def help_terms(self) -> tuple[str, ...]:
        return ("speed-up", "interval", "cold build", "weights")

    def __init__(self, answer: RunAnswer, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._answer = answer

    def show(self, answer: RunAnswer) -> None:
        self._answer = answer
        self.refresh()

    def render(self) -> RenderResult:
        charts = charts_of(self._answer)
        if not charts:
            return Text(NO_CHART)
        number = self.number % len(charts)
        width, height = self.size.width, self.size.height - 1
        lines = charts[number](width, height) or [NO_CHART]
        place = f"chart {number + 1} of {len(charts)}; left and right show the others"
        return Text("\n".join([*lines[:height], place]), no_wrap=True)

    def action_step(self, steps: int) -> None:
        """Show the next picture, or with -1 the previous one."""
        self.number += steps
