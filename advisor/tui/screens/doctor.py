"""The screen with the checks of this machine, each with the step that fixes it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table as RichTable
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from advisor import doctor
from advisor.doctor import Finding
from advisor.errors import UserError
from advisor.question.resolve import worker_interpreter
from advisor.store.store import default_home
from advisor.tui.rendering import text
from advisor.tui.screens.advisor_screen import AdvisorScreen

MARKS = {"ok": "\N{CHECK MARK} ok  ", "warn": "! warn", "fail": "\N{BALLOT X} fail"}


class DoctorScreen(AdvisorScreen):
    """The checks of the machine."""

    HELP_TEXT = "The checks of this machine, as p3-advisor doctor prints them."

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="body"):
            yield Static("Checking ...", id="findings", markup=False)

    def on_mount(self) -> None:
        self.set_title(Text("Doctor", "bold"))
        self.app.background.start("doctor", self._examine, self.show)

    def _examine(self) -> list[Finding]:
        try:
            return doctor.examine(
                worker_interpreter(self.app.answers),
                default_home(self.app.context.environment),
            )
        except UserError as problem:
            return [
                Finding(name=problem.name, status="fail", what=problem.what, fix=problem.next_step)
            ]

    def show(self, findings: list[Finding]) -> None:
        if self.is_attached:
            self.query_one("#findings", Static).update(tabulate_findings(findings))


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
