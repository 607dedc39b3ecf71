"""Compare two runs: what differs between them, then the figures of each arm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.measurement import Cell
from advisor.domain.plan import BASELINE
from advisor.report.comparisons.comparison import Comparison, compare_answers
from advisor.report.comparisons.comparison_text import conclusion
from advisor.report.comparisons.speed_ratios import SpeedVerdict
from advisor.report.sections.answer import headline
from advisor.system.number_format import MISSING, format_interval, format_speedup
from advisor.tui.rendering import text
from advisor.tui.screens.advisor_screen import AdvisorScreen
from advisor.tui.widgets.table import Column, Table

#: Speeds within this share of each other count as equal; the default of `p3-advisor compare`.
THRESHOLD = 0.05
RowVerdict = SpeedVerdict | Literal["only-in-first", "only-in-second", "not-compared"]
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


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one batch size; a figure is None where that run has none."""

    arm: str
    #: None for a server, whose figures are its goodputs.
    batch_size: int | None
    first: Interval | None
    second: Interval | None
    #: Speed-up in the second run over that in the first, for the baseline the speed; None where
    #: they are not comparable.
    speed: Interval | None
    verdict: RowVerdict


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs: what differs between them, and one row per arm and batch size."""

    comparison: Comparison
    #: First line of the answer of each run.
    answers: tuple[str, str]
    rows: tuple[ComparisonRow, ...]
    #: Unit of the figures: of calls, of text that both runs generated, or of requests.
    unit: Literal["ms", "tok/s", "req/s"]


def compare_runs(first: Answer, second: Answer) -> RunComparison:
    comparison = compare_answers(first, second, THRESHOLD)
    cells = [*_cells(first).values(), *_cells(second).values()]
    generates = all(cell.generation is not None for cell in cells)
    goodputs = (
        ComparisonRow(
            arm=change.arm,
            batch_size=None,
            first=change.before,
            second=change.after,
            speed=change.ratio,
            verdict=change.verdict,
        )
        for change in comparison.goodputs
    )
    return RunComparison(
        comparison=comparison,
        answers=(headline(first), headline(second)),
        rows=(*_rows(first, second, comparison, generates=generates), *goodputs),
        unit="req/s" if comparison.goodputs else "tok/s" if generates else "ms",
    )


def _rows(
    first: Answer, second: Answer, comparison: Comparison, *, generates: bool
) -> Iterator[ComparisonRow]:
    changes: dict[tuple[str, int], tuple[Interval, SpeedVerdict]] = {
        (change.arm, change.batch_size): (change.speedup_ratio, change.verdict)
        for change in comparison.changes
    }
    for drift in comparison.drift:
        changes[BASELINE, drift.batch_size] = (drift.speed, drift.verdict)
    figure = _rate if generates else _call_milliseconds
    first_figures, second_figures = (
        {key: figure(cell) for key, cell in _cells(answer).items()} for answer in (first, second)
    )
    for key in dict.fromkeys([*first_figures, *second_figures]):
        change = changes.get(key)
        verdict: RowVerdict = change[1] if change else "not-compared"
        if key not in first_figures:
            verdict = "only-in-second"
        elif key not in second_figures:
            verdict = "only-in-first"
        yield ComparisonRow(
            arm=key[0],
            batch_size=key[1],
            first=first_figures.get(key),
            second=second_figures.get(key),
            speed=change[0] if change else None,
            verdict=verdict,
        )


def _cells(answer: Answer) -> dict[tuple[str, int], Cell]:
    return {(each.arm, cell.batch_size): cell for each in answer.ranked for cell in each.cells}


def _call_milliseconds(cell: Cell) -> Interval:
    median, low, high = (
        None if bound is None else bound * 1e3
        for bound in (cell.seconds.median, cell.seconds.low, cell.seconds.high)
    )
    return Interval(value=median or 0.0, low=low, high=high)


def _rate(cell: Cell) -> Interval:
    """Return the rate of generated text with the interval of the call time."""
    seconds = cell.seconds
    units = cell.throughput.value * seconds.median
    return Interval(
        value=cell.throughput.value,
        low=units / seconds.high if seconds.high else None,
        high=units / seconds.low if seconds.low else None,
    )


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
    ]

    def __init__(self, run_comparison: RunComparison) -> None:
        super().__init__()
        self._compared = run_comparison
        self._hides_same = False

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="differences"):
            yield Static(self._differences(), markup=False)
        yield Table(id="compared")
        yield Static("", id="conclusion", markup=False)

    def on_mount(self) -> None:
        comparison = self._compared.comparison
        self.set_title(
            Text(f"Compare  A = {comparison.before[-11:]}  B = {comparison.after[-11:]}")
        )
        line = "! The runs are not comparable: no verdict."
        if comparison.comparable:
            line = " ".join(conclusion(comparison))
        self.query_one("#conclusion", Static).update(text.printable(line, 300))
        self.query_one(Table).focus()

    def _differences(self) -> Text:
        lines = Text()
        for run, answer in zip("AB", self._compared.answers, strict=True):
            lines += text.styled(f"{run} ", "bold") + Text(f"{text.printable(answer, 300)}\n")
        differences = self._compared.comparison.differences
        if not differences:
            return lines + Text(NOTHING_DIFFERS, "dim")
        for difference in differences:
            line = (
                f"{'!' if difference.decisive else ' '} {text.printable(difference.what, 30):<19}"
                f" {text.printable(difference.before, 60)}  \N{RIGHTWARDS ARROW}"
                f"  {text.printable(difference.after, 60)}\n"
            )
            lines += Text(line, "bold" if difference.decisive else "")
        return lines

    def draw(self) -> None:
        width = self.size.width
        figure_width, speed_width = (24, 22) if width >= WIDE_WIDTH else (6, 7)
        unit = self._compared.unit
        self.query_one(Table).fill(
            [
                Column("arm", "Workflow", 10, most=44, is_name=True),
                Column("size", "@", 4, is_numeric=True),
                Column("first", f"A {unit}", figure_width, is_numeric=True),
                Column("second", f"B {unit}", figure_width, is_numeric=True),
                Column("speed", "B / A", speed_width, is_numeric=True),
                Column("verdict", "", 14),
            ],
            {
                f"{row.arm}@{row.batch_size}": self._row(row, is_wide=width >= WIDE_WIDTH)
                for row in self._compared.rows
                if row.verdict != "same" or not self._hides_same
            },
        )

    def _row(self, row: ComparisonRow, *, is_wide: bool) -> dict[str, str]:
        def figure(found: Interval | None) -> str:
            if is_wide:
                return format_interval(found, unit="", decimals=None)
            return text.format_number(found.value if found else None)

        return {
            "arm": row.arm,
            "size": MISSING if row.batch_size is None else str(row.batch_size),
            "first": figure(row.first),
            "second": figure(row.second),
            "speed": format_interval(row.speed) if is_wide else format_speedup(row.speed),
            "verdict": VERDICT_LABELS[row.verdict],
        }

    def action_differences(self) -> None:
        self._hides_same = not self._hides_same
        self.draw()
