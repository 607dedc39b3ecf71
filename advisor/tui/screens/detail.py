"""Show one arm: its tiers, times, code, environment and log."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static, TabbedContent, TabPane

from advisor.pipeline.decision import Decision
from advisor.store import Run
from advisor.tui.rendering import text
from advisor.tui.rendering.arm_detail import (
    render_code,
    render_environment,
    render_score,
    render_timing,
    repeat_command,
)
from advisor.tui.run.logs import clean_line
from advisor.tui.screens.advisor_screen import AdvisorScreen, TitleBar
from advisor.tui.widgets.key_footer import KeyFooter

TABS = ("Score", "Timing", "Code", "Environment", "Log")
MAX_LOG_BYTES = 200_000


class DetailScreen(AdvisorScreen):
    """The details of one arm, in tabs."""

    HELP_TEXT = """\
Score: each criterion with its value, the rule of its tier, and what the next tier requires.
Timing: one bar for each visit; bars of equal length mean stable times. Log: the output of the
stack."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,left", "step(-1)", "Previous", key_display="[", id="previous"),
        Binding("right_square_bracket,right", "step(1)", "Next", key_display="]", id="next-arm"),
        Binding("1", "tab('score')", "Score"),
        Binding("2", "tab('timing')", "Timing"),
        Binding("3", "tab('code')", "Code"),
        Binding("4", "tab('environment')", "Environment", show=False),
        Binding("5", "tab('log')", "Log", id="log"),
        Binding(
            "y",
            "copy",
            "Copy",
            id="copy",
            tooltip="copy the command that repeats this measurement",
            show=False,
        ),
        Binding("escape,q", "app.pop_screen", "Back", id="back"),
    ]

    def __init__(self, decision: Decision, arm: str, run: Run | None) -> None:
        super().__init__()
        self._decision, self._arm, self._run = decision, arm, run

    def compose(self) -> ComposeResult:
        yield TitleBar()
        with TabbedContent(id="tabs"):
            for number, name in enumerate(TABS, start=1):
                with TabPane(f"{number} {name}", id=name.lower()), VerticalScroll():
                    yield Static("", id=f"text-{name.lower()}", markup=False)
        yield self.compose_too_small_notice()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.draw()

    def action_step(self, steps: int) -> None:
        """Show the next arm in the ranking, or with -1 the previous one."""
        arms = [arm.arm for arm in self._decision.scored]
        self._arm = arms[(arms.index(self._arm) + steps) % len(arms)]
        self.draw()

    def action_tab(self, name: str) -> None:
        """Show a tab."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name} VerticalScroll").focus()

    def action_copy(self) -> None:
        """Copy the command that measures this arm again."""
        command = repeat_command(self._decision, self._arm)
        self.app.copy_to_clipboard(command)
        self.notify(f"copied: {command}", markup=False)

    def draw(self) -> None:
        """Fill the tabs."""
        decision, arm = self._decision, self._arm
        scored = next(each for each in decision.scored if each.arm == arm)
        self.query_one(TitleBar).set_text(
            Text(text.printable(arm, 60), "bold")
            + Text(
                f"   rank {scored.rank} of {len(decision.scored)}"
                f"   score {scored.score:.2f} / 3   {text.format_ratio(scored.speedup)}"
            )
        )
        for name, content in (
            ("score", render_score(decision, arm)),
            ("timing", render_timing(decision, arm)),
            ("code", render_code(decision, arm, self.app_interface.context.probes)),
            ("environment", render_environment(decision, arm)),
            ("log", self._log()),
        ):
            self.query_one(f"#text-{name}", Static).update(content)

    def _log(self) -> Text:
        if self._run is None:
            return Text("the files of this run are not stored here")
        processes = len(self._decision.state.processes.get(self._arm, ()))
        file = self._run.worker_log_path(self._arm, max(processes - 1, 0))
        try:
            content = file.read_bytes()[-MAX_LOG_BYTES:]
        except OSError:
            return Text("the log is not stored here", "dim")
        lines = [clean_line(line) for line in content.decode("utf-8", "replace").splitlines()]
        return Text("\n".join(lines)) if lines else Text("no output", "dim")
