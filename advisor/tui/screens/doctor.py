"""The screen with the checks of this machine, each with the step that fixes it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.table import Table as RichTable
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.timer import Timer
from textual.widgets import Static

from advisor.doctor import checks
from advisor.doctor.findings import OVERHEAD_NAME, Finding
from advisor.errors import UserError
from advisor.question.resolve import worker_interpreter
from advisor.statistics.disturbance import Condition
from advisor.store.store import default_home
from advisor.tui.rendering import text
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.widgets.key_footer import KeyFooter

#: As often as while timing, and as while compiling.
DRAWING_RATES_HZ = (2.0, 10.0)
#: The screen takes this long to start drawing at a new rate.
SETTLING_SECONDS = 0.1
MARKS = {"ok": "\N{CHECK MARK} ok  ", "warn": "! warn", "fail": "\N{BALLOT X} fail"}


class DoctorScreen(AdvisorScreen):
    """The checks of the machine."""

    HELP_TEXT = """\
The checks of this machine, as p3-advisor doctor prints them. o measures whether this display
slows timed calls down: the same check as p3-advisor doctor --observer, drawn at 2 and 10 Hz."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "o",
            "observe",
            "Check the display",
            id="observe",
            tooltip="whether drawing slows timed calls down; takes a minute",
        ),
        Binding("escape", "app.pop_screen", "Back", id="back"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with VerticalScroll(id="body"):
            yield Static("Checking ...", id="findings", markup=False)
            yield Static("", id="drawing-progress", markup=False)
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        self._findings: list[Finding] = []
        #: Draws the screen while the check runs.
        self.drawing_timer: Timer | None = None
        self._drawing_count = 0
        self.query_one(TitleBar).set_text(Text("Doctor", "bold"))
        self.app.background.start("doctor", self._examine, self.show)

    def _examine(self) -> list[Finding]:
        try:
            return checks.examine(
                worker_interpreter(self.app.answers),
                default_home(self.app.context.environment),
            )
        except UserError as problem:
            return [
                Finding(name=problem.name, status="fail", what=problem.what, fix=problem.next_step)
            ]

    def show(self, findings: list[Finding]) -> None:
        if not self.is_attached:
            return
        self._findings = [
            *findings,
            *(finding for finding in self._findings if finding.name == OVERHEAD_NAME),
        ]
        self.query_one("#findings", Static).update(tabulate_findings(self._findings))

    def action_observe(self) -> None:
        """Measure whether drawing slows timed calls down."""
        if self.app.run_controller.owned_host is not None:
            self.notify(
                "a run is in progress; the check would disturb it",
                severity="warning",
                markup=False,
            )
            return
        self._show_progress("Timing eager calls while this line is drawn ...")
        self.app.background.start("observe", self._measure_overhead, self._show_overhead)

    def _measure_overhead(self) -> Finding:
        """Time calls in this thread while the application draws this screen."""
        from advisor.doctor import display_overhead  # noqa: PLC0415 - rarely used

        answers, context = self.app.answers, self.app.context
        displays: dict[str, Condition] = {
            f"the display drawn at {hertz:g} Hz": functools.partial(self._drawn_at, hertz)
            for hertz in DRAWING_RATES_HZ
        }
        try:
            return display_overhead.measure_display_overhead(
                answers.python, answers.gpu, context, displays
            )
        except UserError as problem:
            return Finding(
                name=OVERHEAD_NAME, status="fail", what=problem.what, fix=problem.next_step
            )

    @contextlib.contextmanager
    def _drawn_at(self, hertz: float) -> Iterator[None]:
        """Draw the screen at this rate while the block runs in another thread."""
        self.app.call_later(self.draw_at, hertz)
        time.sleep(SETTLING_SECONDS)
        try:
            yield
        finally:
            self.app.call_later(self.draw_at, 0.0)

    def _show_overhead(self, finding: Finding) -> None:
        self.draw_at(0.0)
        self._show_progress("")
        self.show([*(each for each in self._findings if each.name != finding.name), finding])

    def _show_progress(self, line: str) -> None:
        if self.is_attached:
            self.query_one("#drawing-progress", Static).update(line)

    def draw_at(self, hertz: float) -> None:
        """Draw the whole screen `hertz` times a second from now on; 0 stops."""
        if self.drawing_timer is not None:
            self.drawing_timer.stop()
        self.drawing_timer = (
            self.set_interval(1 / hertz, self._draw_again) if hertz and self.is_attached else None
        )

    def _draw_again(self) -> None:
        self._drawing_count += 1
        self._show_progress(
            f"Timing eager calls while this line is drawn, {self._drawing_count} times so far ..."
        )
        self.refresh(layout=True)


def tabulate_findings(findings: Sequence[Finding]) -> RichTable:
    """Return the findings as a table whose long lines wrap in their own column."""
    table = RichTable.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        what = Text(text.printable(finding.what, 300))
        if finding.fix:
            what += Text(f"\nnext: {text.printable(finding.fix, 300)}")
        table.add_row(Text(MARKS[finding.status]), Text(text.printable(finding.name)), what)
    return table
