"""What is wrong with this machine, each finding with its fix."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.timer import Timer
from textual.widgets import Static

from advisor import doctor, question
from advisor.doctor import Finding
from advisor.errors import UserError
from advisor.store import default_home
from advisor.tui import text
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.widgets.keys import Keys

MARKS = {"ok": "\N{CHECK MARK} ok  ", "warn": "! warn", "fail": "\N{BALLOT X} fail"}


class Doctor(Frame):
    """The findings."""

    HELP_TEXT = """\
What was looked at, and what to do about it. The same as p3-advisor doctor. o times eager
calls while this display is drawn at 0, 2 and 10 Hz, to see whether drawing disturbs them."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "o",
            "observe",
            "Check the display",
            id="observe",
            tooltip="whether drawing disturbs the timing; takes a minute",
        ),
        Binding("escape,q", "app.pop_screen", "Back", id="back"),
    ]

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield TopLine()
        with VerticalScroll(id="body"):
            yield Static("Looking ...", id="findings", markup=False)
            yield Static("", id="drawn", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Look at the machine."""
        self._findings: list[Finding] = []
        self._drawing: Timer | None = None
        self._drawn = 0
        self.query_one(TopLine).tell(Text("Doctor"), self.advisor.run_words())
        self.advisor.background.do("doctor", self._examine, self.show)

    def _examine(self) -> list[Finding]:
        try:
            return doctor.examine(
                question.interpreter_of(self.advisor.answers),
                default_home(self.advisor.world.environment),
            )
        except UserError as problem:
            return [
                Finding(name=problem.name, status="fail", what=problem.what, fix=problem.next_step)
            ]

    def show(self, findings: list[Finding]) -> None:
        """Show what was found."""
        if not self.is_attached:
            return
        self._findings = [
            *findings,
            *(finding for finding in self._findings if finding.name == "display"),
        ]
        words = Text()
        for finding in self._findings:
            words += Text(f"{MARKS[finding.status]}  ", "bold") + Text(
                f"{finding.name:<14}{text.plain(finding.what, 300)}\n"
            )
            words += Text(
                f"{'':8}next: {text.plain(finding.fix, 300)}\n" if finding.fix else "", ""
            )
        self.query_one("#findings", Static).update(words)

    def action_observe(self) -> None:
        """See whether drawing disturbs the timing."""
        if self.advisor.runs.owned is not None:
            self.notify(
                "a run goes on; the check would disturb it", severity="warning", markup=False
            )
            return
        from advisor.tui import observer  # noqa: PLC0415 - only when asked for

        self._tell("Timing eager calls while this line is drawn ...")
        hand, advisor = self.app.call_later, self.advisor

        def observe() -> Finding:
            try:
                return observer.observe(
                    advisor.answers, advisor.world, lambda hertz: hand(self.draw_at, hertz)
                )
            except UserError as problem:
                return Finding(
                    name=observer.NAME, status="fail", what=problem.what, fix=problem.next_step
                )

        self.advisor.background.do("observe", observe, self._observed)

    def _observed(self, finding: Finding) -> None:
        self.draw_at(0.0)
        self._tell("")
        self.show([*(each for each in self._findings if each.name != finding.name), finding])

    def _tell(self, words: str) -> None:
        if self.is_attached:
            self.query_one("#drawn", Static).update(words)

    def draw_at(self, hertz: float) -> None:
        """Draw the whole screen so many times a second, from now on."""
        if self._drawing is not None:
            self._drawing.stop()
        self._drawing = (
            self.set_interval(1 / hertz, self._draw_again) if hertz and self.is_attached else None
        )

    def _draw_again(self) -> None:
        self._drawn += 1
        self._tell(f"Timing eager calls while this line is drawn, {self._drawn} times so far ...")
        self.refresh(layout=True)
