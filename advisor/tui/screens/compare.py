"""Compare two runs, in the words of `p3-advisor compare`."""

from __future__ import annotations

import textwrap

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import ScrollableContainer
from textual.widgets import Static

from advisor.report.comparisons.comparison import Comparison
from advisor.report.comparisons.comparison_text import render
from advisor.system.terminal_text import escape_control_chars
from advisor.tui.screens.advisor_screen import AdvisorScreen

#: Speeds within this share of each other count as equal; the default of `p3-advisor compare`.
THRESHOLD = 0.05
#: Cells of padding and scrollbar.
MARGIN = 4


class CompareScreen(AdvisorScreen):
    """The comparison of two runs."""

    HELP_TEXT = """\
The answers of both runs come first, then what the comparison shows, the figures of each arm, and
what differs between the runs; arrows scroll. A difference marked with ! makes the speeds
incomparable, so there is no verdict. The speed-up is that in the second run over that in the first,
with its 95 % interval; for servers it is the rate of requests. Within 5 % the speeds count as the
same."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._comparison = comparison

    def compose_body(self) -> ComposeResult:
        with ScrollableContainer(id="body"):
            yield Static("", id="comparison", markup=False)

    def on_mount(self) -> None:
        before, after = self._comparison.before[-11:], self._comparison.after[-11:]
        self.set_title(Text(f"Compare  {before} with {after}"))
        self.query_one(ScrollableContainer).focus()

    def draw(self) -> None:
        """Wrap the answers and the conclusion; wide tables scroll."""
        answers, differences, conclusion, *tables = render(self._comparison).split("\n\n")
        answers, conclusion = (
            "\n".join(
                textwrap.fill(line, self.size.width - MARGIN, subsequent_indent="  ")
                for line in block.splitlines()
            )
            for block in (answers, conclusion)
        )
        shown = "\n\n".join([answers, conclusion, *(each.rstrip() for each in tables), differences])
        self.query_one("#comparison", Static).update(
            Text(escape_control_chars(shown), no_wrap=True)
        )
