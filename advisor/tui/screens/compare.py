"""Two runs side by side: what differs between them stands before any number."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.domain.measurement import Cell
from advisor.tui import text
from advisor.tui.comparing import ComparedArm, Comparison, Verdict
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.table import Column, Table

MARKS: dict[Verdict, str] = {
    "first": "> A faster",
    "second": "< B faster",
    "same": "= within noise",
    "only first": "only in A",
    "only second": "only in B",
    "too little": "too few visits",
    "not compared": "not compared",
}
#: From this width on there is room for the intervals.
WIDE = 100


class Compare(Frame):
    """The comparison."""

    HELP_TEXT = """\
What differs between the runs stands first. Lines with ! forbid a verdict: the times are shown
side by side only. = means that the 95 % intervals of the medians overlap."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "differences", "Only differences", id="differences", tooltip="hide the rows that are within the noise"),
        Binding("tab", "app.focus_next", "Next part", show=False),
        Binding("escape,q", "app.pop_screen", "Back", id="back"),
    ]

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._comparison = comparison
        self._only_differences = False

    def compose(self) -> ComposeResult:
        """Make the differences and the table."""
        yield TopLine()
        with VerticalScroll(id="differences"):
            yield Static("", id="differing", markup=False)
        yield Table(id="compared")
        yield Static("", id="legend", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Show the runs."""
        comparison = self._comparison
        self.query_one(TopLine).tell(Text(f"Compare  A = {comparison.first[-20:]}  B = {comparison.second[-20:]}"))
        self.query_one("#differing", Static).update(self._differences())
        words = "A and B took the same question to the same device." if comparison.is_fair else "! Not like for like: no verdict."
        self.query_one("#legend", Static).update(words)
        self.query_one(Table).focus()
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def _differences(self) -> Text:
        words = Text()
        for difference in self._comparison.differences:
            mark = "!" if difference.forbids else " "
            line = f"{mark} {text.plain(difference.what, 18):<19}{text.plain(difference.first, 60)}  \N{RIGHTWARDS ARROW}  "
            words += Text(line + text.plain(difference.second, 60) + "\n", "bold" if difference.forbids else "")
        return words or Text("Nothing that was recorded differs between the runs.")

    def _draw(self) -> None:
        width = self.size.width
        figures = 22 if width >= WIDE else 7
        name = max(min(width - 2 * figures - 38, 44), 12)
        table = self.query_one(Table)
        table.lay_out(
            [
                Column("arm", "Workflow", name),
                Column("size", "@", 5, figures=True),
                Column("first", "A ms", figures, figures=True),
                Column("second", "B ms", figures, figures=True),
                Column("change", "B to A", 8, figures=True),
                Column("verdict", "", 14),
            ]
        )
        rows = [row for row in self._comparison.arms if row.verdict != "same" or not self._only_differences]
        table.fill({f"{row.arm}@{row.batch_size}": self._row(row, name, width) for row in rows})

    def _row(self, row: ComparedArm, name: int, width: int) -> dict[str, str]:
        return {
            "arm": text.squeeze(text.plain(row.arm), name),
            "size": str(row.batch_size),
            "first": _milliseconds(row.first, width),
            "second": _milliseconds(row.second, width),
            "change": text.DASH if row.change is None else f"{row.change:+.1%}",
            "verdict": MARKS[row.verdict],
        }

    def action_differences(self) -> None:
        """Hide what is within the noise, or show it."""
        self._only_differences = not self._only_differences
        self._draw()


def _milliseconds(cell: Cell | None, width: int) -> str:
    if cell is None:
        return text.DASH
    seconds = cell.seconds
    interval = f" [{text.milliseconds(seconds.low)}, {text.milliseconds(seconds.high)}]" if width >= WIDE else ""
    return f"{text.milliseconds(seconds.median)}{interval}"
