"""What is wrong with this machine, each finding with its fix."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
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

    HELP_TEXT = "What was looked at, and what to do about it. The same as p3-advisor doctor."
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "app.pop_screen", "Back", id="back")]

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield TopLine()
        with VerticalScroll(id="body"):
            yield Static("Looking ...", id="findings", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Look at the machine."""
        self.query_one(TopLine).tell(Text("Doctor"), self.advisor.run_words())
        self.advisor.background.do("doctor", self._examine, self.show)

    def _examine(self) -> list[Finding]:
        try:
            return doctor.examine(question.interpreter_of(self.advisor.answers), default_home(self.advisor.world.environment))
        except UserError as problem:
            return [Finding(name=problem.name, status="fail", what=problem.what, fix=problem.next_step)]

    def show(self, findings: list[Finding]) -> None:
        """Show what was found."""
        if not self.is_attached:
            return
        words = Text()
        for finding in findings:
            words += Text(f"{MARKS[finding.status]}  ", "bold") + Text(f"{finding.name:<14}{text.plain(finding.what, 300)}\n")
            words += Text(f"{'':8}next: {text.plain(finding.fix, 300)}\n" if finding.fix else "", "")
        self.query_one("#findings", Static).update(words)
