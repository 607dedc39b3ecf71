"""Two runs side by side: what differs between them stands before any number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.domain.measurement import Cell, Interval
from advisor.report.comparison import closing
from advisor.tui import text
from advisor.tui.comparing import Row, Sides
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys
from advisor.tui.widgets.table import Column, Table

#: Words for the judgement on B, with a mark that no colour is needed for.
MARKS = {
    "slower": "> A faster",
    "faster": "< B faster",
    "same": "= the same",
    "not told apart": "? cannot tell",
}
#: From this width on there is room for the intervals.
WIDE = 120


class Compare(Frame):
    """The comparison."""

    HELP_TEXT = """\
What differs between the runs stands first. Lines with ! forbid a verdict: the times are shown
side by side only. "B speed" is how many times as fast B is, with its 95 % interval; the same means
within 5 %. It is the comparison of p3-advisor compare."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d",
            "differences",
            "Only differences",
            id="differences",
            tooltip="hide the rows that are within the noise",
        ),
        Binding("tab", "app.focus_next", "Next part", show=False),
        Binding("escape,q", "app.pop_screen", "Back", id="back"),
    ]

    def __init__(self, sides: Sides) -> None:
        super().__init__()
        self._sides, self._comparison = sides, sides.comparison
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
        self.query_one(TopLine).tell(
            Text(f"Compare  A = {comparison.before[-11:]}  B = {comparison.after[-11:]}")
        )
        self.query_one("#differing", Static).update(self._differences())
        words = (
            "; ".join(closing(comparison))
            if comparison.comparable
            else "! Not like for like: no verdict."
        )
        self.query_one("#legend", Static).update(text.plain(words, 300))
        self.query_one(Table).focus()
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the table out for the width."""
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def _differences(self) -> Text:
        words = Text()
        for difference in self._comparison.differences:
            mark = "!" if difference.decisive else " "
            line = f"{mark} {text.plain(difference.what, 30):<19} {text.plain(difference.before, 60)}  \N{RIGHTWARDS ARROW}  "
            words += Text(
                line + text.plain(difference.after, 60) + "\n",
                "bold" if difference.decisive else "",
            )
        return words or Text("Nothing that was recorded differs between the runs.")

    def _draw(self) -> None:
        width = self.size.width
        figures, unit = (22 if width >= WIDE else 6), ("tok/s" if self._sides.generates else "ms")
        name = max(min(width - (3 if width >= WIDE else 2) * figures - 38, 44), 10)
        table = self.query_one(Table)
        table.lay_out(
            [
                Column("arm", "Workflow", name),
                Column("size", "@", 4, figures=True),
                Column("first", f"A {unit}", figures, figures=True),
                Column("second", f"B {unit}", figures, figures=True),
                Column("speed", "B speed", 22 if width >= WIDE else 7, figures=True),
                Column("verdict", "", 14),
            ]
        )
        rows = [
            row for row in self._sides.rows if row.verdict != "same" or not self._only_differences
        ]
        table.fill({f"{row.arm}@{row.batch_size}": self._row(row, name, width) for row in rows})

    def _row(self, row: Row, name: int, width: int) -> dict[str, str]:
        return {
            "arm": text.squeeze(text.plain(row.arm), name),
            "size": str(row.batch_size),
            "first": self._call(row.first, width),
            "second": self._call(row.second, width),
            "speed": _speed(row.speed, width),
            "verdict": MARKS.get(row.verdict, row.verdict),
        }

    def _call(self, cell: Cell | None, width: int) -> str:
        if cell is None:
            return text.DASH
        seconds = cell.seconds
        if self._sides.generates:
            tokens = cell.throughput.value * seconds.median
            rates = [each and tokens / each for each in (seconds.median, seconds.high, seconds.low)]
            return _with_interval(rates, text.figure, width)
        return _with_interval([seconds.median, seconds.low, seconds.high], text.milliseconds, width)

    def action_differences(self) -> None:
        """Hide what is within the noise, or show it."""
        self._only_differences = not self._only_differences
        self._draw()


def _speed(speed: Interval | None, width: int) -> str:
    return (
        text.DASH
        if speed is None
        else _with_interval([speed.value, speed.low, speed.high], text.times, width)
    )


def _with_interval(
    figures: Sequence[float | None], tell: Callable[[float | None], str], width: int
) -> str:
    """Return a value, and its lower and upper bound where there is room for them."""
    value, low, high = map(tell, figures)
    return f"{value} [{low}, {high}]" if width >= WIDE else value
