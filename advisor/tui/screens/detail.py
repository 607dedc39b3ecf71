"""Show one arm: its tiers, times, code, environment and log."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.store.runs import Run
from advisor.system.number_format import format_interval
from advisor.system.regular_file import read_tail
from advisor.tui.answer import RunAnswer
from advisor.tui.rendering import text
from advisor.tui.rendering.arm_detail import (
    render_code,
    render_environment,
    render_new_shapes,
    render_score,
    render_timing,
    verify_command,
)
from advisor.tui.run.logs import clean_line
from advisor.tui.screens.advisor_screen import AdvisorScreen

TABS = ("Score", "Timing", "Code", "Environment", "Log")
MAX_LOG_BYTES = 200_000


class DetailScreen(AdvisorScreen):
    """The details of one arm, in tabs."""

    HELP_TEXT = """\
Score: each criterion with its value, the rule of its grade, and what the next letter requires.
Timing: one bar for each visit; bars of equal length mean stable times; below them, what the arm
did with shapes that were not built. Log: the output of the stack."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,left", "step(-1)", "Previous", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Next", key_display="]", id="next-arm"),
        *[
            Binding(str(number), f"tab('{name.lower()}')", name, tooltip=name, show=False)
            for number, name in enumerate(TABS, start=1)
        ],
        Binding(
            "y",
            "copy",
            "Copy command",
            id="copy",
            tooltip="copy the command that runs the measured code again",
        ),
    ]

    def __init__(self, answer: RunAnswer, arm: str, run: Run | None) -> None:
        super().__init__()
        self._answer, self._arm, self._run = answer, arm, run

    def compose_body(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            for number, name in enumerate(TABS, start=1):
                with TabPane(f"{number} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)

    def on_mount(self) -> None:
        self.query_one("#score VerticalScroll").focus()

    def action_step(self, steps: int) -> None:
        """Show the next arm in the ranking, or with -1 the previous one."""
        arms = [entry.arm for entry in self._answer.ranked]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def offers(self, action: str) -> bool:
        """Offer the command only for a stored run, whose code it can run."""
        return action != "copy" or self._run is not None

    def action_copy(self) -> None:
        """Copy the command that runs the measured code of this arm again."""
        self.copy(verify_command(self._answer, self._arm))

    def draw(self) -> None:
        answer, entry = self._answer, self._answer.ranked_arm(self._arm)
        self.set_title(
            text.styled(text.printable(entry.arm, 60), "bold")
            + Text(
                f"   rank {entry.scored.rank} of {len(answer.ranked)}"
                f"   score {entry.scored.score:.2f}"
                f"   {format_interval(entry.speedup)}"
            )
        )
        for name, content in (
            ("score", render_score(answer, entry)),
            ("timing", render_timing(answer, entry) + render_new_shapes(entry)),
            ("code", render_code(answer, entry)),
            ("environment", render_environment(answer, entry)),
            ("log", self._log()),
        ):
            self.query_one(f"#text-{name}", Static).update(content)

    def _log(self) -> Text:
        if self._run is None:
            return Text("the files of this run are not stored here")
        processes = len(self._run.state().processes.get(self._arm, ()))
        file = self._run.worker_log_path(self._arm, max(processes - 1, 0))
        try:
            content = read_tail(file, MAX_LOG_BYTES)
        except OSError:
            return Text("the log is not stored here", "dim")
        lines = [clean_line(line) for line in content.decode("utf-8", "replace").splitlines()]
        return Text("\n".join(lines)) if lines else Text("no output", "dim")
