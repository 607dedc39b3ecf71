"""Compare two runs: what differs between them, then the figures of each arm."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.report.comparisons.comparison_text import conclusion
from advisor.system.number_format import (
    MISSING,
    format_call_milliseconds,
    format_interval,
)
from advisor.tui.rendering import text
from advisor.tui.run.comparison import ComparisonRow, RowVerdict, RunComparison
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.widgets.key_footer import KeyFooter
from advisor.tui.widgets.table import Column, Table

#: Labels of the verdicts; the sign distinguishes them without colours.
VERDICT_LABELS: dict[RowVerdict, str] = {
    "slower": "> A faster",
    "faster": "< B faster",
    "same": "= similar",
    "undecided": "? unclear",
    "only-in-first": "only in A",
    "only-in-second": "only in B",
    "not-compared": "not compared",
}
NOTHING_DIFFERS = (
    "The question, the machine and the versions are the same, so a difference in speed is noise or"
    " comes from what is not recorded."
)
#: Width of the terminal from which intervals are shown.
WIDE_WIDTH = 120


class CompareScreen(AdvisorScreen):
    """The comparison of two runs, A and B."""

    HELP_TEXT = """\
The first lines are the answers of both runs, the next ones what differs between the runs. A
difference marked with ! makes the speeds incomparable, so the figures are shown without a verdict.
"B / A" is the speed-up in B over the speed-up in A, with its 95 % interval; for the baseline it is
the speed. For servers it is the rate of requests in B over that in A. Within 5 % the speeds count
as the same. p3-advisor compare prints the same comparison."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d",
            "differences",
            "Only differences",
            id="differences",
            tooltip="hide the rows with the same speed in both runs",
        ),
        Binding("tab", "app.focus_next", "Next widget", show=False),
        Binding("escape", "app.pop_screen", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def __init__(self, run_comparison: RunComparison) -> None:
        super().__init__()
        self._run_comparison = run_comparison
        self._comparison = run_comparison.comparison
        self._hides_same = False

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with VerticalScroll(id="differences"):
            yield Static(self._differences(), id="difference-list", markup=False)
        yield Table(id="compared")
        yield Static("", id="conclusion", markup=False)
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        comparison = self._comparison
        self.query_one(TitleBar).set_text(
            Text(f"Compare  A = {comparison.before[-11:]}  B = {comparison.after[-11:]}")
        )
        conclusion_line = (
            " ".join(conclusion(comparison))
            if comparison.comparable
            else "! The runs are not comparable: no verdict."
        )
        self.query_one("#conclusion", Static).update(text.printable(conclusion_line, 300))
        self.query_one(Table).focus()
        self._draw_table()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._draw_table)

    def _differences(self) -> Text:
        lines = Text()
        for run, answer in zip("AB", self._run_comparison.answers, strict=True):
            lines += text.styled(f"{run} ", "bold") + Text(f"{text.printable(answer, 300)}\n")
        if not self._comparison.differences:
            return lines + Text(NOTHING_DIFFERS, "dim")
        for difference in self._comparison.differences:
            mark = "!" if difference.decisive else " "
            line = (
                f"{mark} {text.printable(difference.what, 30):<19}"
                f" {text.printable(difference.before, 60)}  \N{RIGHTWARDS ARROW}"
                f"  {text.printable(difference.after, 60)}\n"
            )
            lines += Text(line, "bold" if difference.decisive else "")
        return lines

    def _draw_table(self) -> None:
        width = self.size.width
        is_wide = width >= WIDE_WIDTH
        figure_width, speed_width = (24, 22) if is_wide else (6, 7)
        arm_width = max(min(width - 2 * figure_width - speed_width - 31, 44), 10)
        unit = self._run_comparison.unit
        self.query_one(Table).fill(
            [
                Column("arm", "Workflow", arm_width, is_name=True),
                Column("size", "@", 4, is_numeric=True),
                Column("first", f"A {unit}", figure_width, is_numeric=True),
                Column("second", f"B {unit}", figure_width, is_numeric=True),
                Column("speed", "B / A", speed_width, is_numeric=True),
                Column("verdict", "", 14),
            ],
            {
                f"{row.arm}@{row.batch_size}": self._cells(row, is_wide=is_wide)
                for row in self._run_comparison.rows
                if row.verdict != "same" or not self._hides_same
            },
        )

    def _cells(self, row: ComparisonRow, *, is_wide: bool) -> dict[str, str]:
        speed = row.speed
        return {
            "arm": row.arm,
            "size": MISSING if row.batch_size is None else str(row.batch_size),
            "first": self._figure(row.first, is_wide=is_wide),
            "second": self._figure(row.second, is_wide=is_wide),
            "speed": format_interval(speed)
            if is_wide
            else text.format_ratio(speed.value if speed else None),
            "verdict": VERDICT_LABELS[row.verdict],
        }

    def _figure(self, figure: Cell | Interval | None, *, is_wide: bool) -> str:
        """Return the call time in milliseconds, or the rate of generated text or of requests."""
        if figure is None:
            return MISSING
        if isinstance(figure, Interval) or self._run_comparison.generates_text:
            rate = figure if isinstance(figure, Interval) else _rate(figure)
            return (
                format_interval(rate, unit="", decimals=None)
                if is_wide
                else text.format_number(rate.value)
            )
        if is_wide:
            return format_call_milliseconds(figure.seconds)
        return text.format_milliseconds(figure.seconds.median)

    def action_differences(self) -> None:
        """Hide or show the rows with the same speed in both runs."""
        self._hides_same = not self._hides_same
        self._draw_table()


def _rate(cell: Cell) -> Interval:
    """Return the rate of generated text with the interval of the call time."""
    seconds = cell.seconds
    units = cell.throughput.value * seconds.median
    return Interval(
        value=cell.throughput.value,
        low=units / seconds.high if seconds.high else None,
        high=units / seconds.low if seconds.low else None,
    )
