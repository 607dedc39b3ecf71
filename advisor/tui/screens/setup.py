"""The questions: Model, Target, Priorities, Plan.

Every one has an answer already, so `ctrl+r` starts from anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Static

from advisor.domain.machine import Machine
from advisor.errors import UserError
from advisor.tui import text
from advisor.tui.screens.frame import Frame, TopLine
from advisor.tui.steps.model import ModelStep
from advisor.tui.steps.step import Step
from advisor.tui.widgets.keys import Keys

if TYPE_CHECKING:
    from advisor.tui.run.unfinished import Waiting

NAMES = ("Model", "Target", "Priorities", "Plan")


class Setup(Frame):
    """The four questions, one at a time."""

    HELP_TEXT = """\
Four questions, each with an answer already: enter goes on, esc goes back, ctrl+r starts
the probes with what is answered so far. Nothing is installed and nothing leaves this machine.
Bars: arrows move a weight by 5, with shift by 1, digits set it, = balances."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", "Next", id="next"),
        Binding("escape", "back", "Back", id="back"),
        Binding("ctrl+r", "start", "Run now", key_display="^r", priority=True, id="run"),
        Binding(
            "ctrl+g",
            "go_on",
            "Go on",
            key_display="^g",
            id="go-on",
            tooltip="go on with the run that was not finished",
        ),
        Binding("p", "preset", "Preset", id="preset"),
        Binding("H", "history", "History", id="history"),
        Binding("q", "app.leave", "Quit", id="quit"),
    ]

    def compose(self) -> ComposeResult:
        """Make the first question; the others come when they are asked."""
        yield TopLine()
        yield Static("", id="waiting", markup=False)
        with Vertical(id="body"):
            yield ContentSwitcher(ModelStep(id="step-0"), initial="step-0", id="steps")
        yield Static("", id="problem", markup=False)
        yield self.compose_too_small()
        yield Keys()

    def on_mount(self) -> None:
        """Begin with the first question."""
        self.place = 0
        self._waiting: Waiting | None = None
        self._crumbs()
        self.step.begin()

    @property
    def step(self) -> Step:
        """The question that is asked now."""
        return cast("Step", self.query_one(f"#step-{self.place}"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Show only the keys that do something here."""
        if action == "preset":
            return self.place == NAMES.index("Priorities")
        if action == "back":
            return self.place > 0
        if action == "go_on":
            return self._waiting is not None and self.place == 0
        return not (action == "history" and self.place > 0)

    def _crumbs(self) -> None:
        line = Text()
        for place, name in enumerate(NAMES):
            mark = "\N{CHECK MARK} " if place < self.place else f"{place + 1} "
            line.append(
                mark + name, "bold" if place == self.place else "dim" if place > self.place else ""
            )
            line.append(
                "  \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}  "
                if place < len(NAMES) - 1
                else "",
                "dim",
            )
        self.query_one(TopLine).tell(line, self.advisor.run_words())
        self.refresh_bindings()

    def offer(self, waiting: Waiting | None) -> None:
        """Say that a run was not finished, or nothing."""
        self._waiting = waiting
        self._show_waiting()
        self.refresh_bindings()

    def _show_waiting(self) -> None:
        notice = self.query_one("#waiting", Static)
        notice.update(self._waiting.words if self._waiting is not None else "")
        notice.display = self._waiting is not None and self.place == 0

    def action_go_on(self) -> None:
        """Go on with the run that was not finished, or show it."""
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._show_waiting()
            self.advisor.runs.resume(waiting.run_id)

    def tell_problem(self, problem: UserError | None) -> None:
        """Say what does not fit and what to do, or nothing."""
        notice = self.query_one("#problem", Static)
        notice.update(
            f"{text.plain(problem.what, 600)}\nnext: {text.plain(problem.next_step, 300)}"
            if problem
            else ""
        )
        notice.set_class(problem is not None, "-shown")

    def action_next(self) -> None:
        """Go to the next question, or start."""
        if not self._check():
            return
        if self.place == len(NAMES) - 1:
            self.action_start()
            return
        self.run_worker(self._go(self.place + 1), group="steps", exclusive=True)

    def action_back(self) -> None:
        """Go to the question before."""
        if self.place > 0:
            self.tell_problem(None)
            self.run_worker(self._go(self.place - 1), group="steps", exclusive=True)

    def action_history(self) -> None:
        """Show the stored runs."""
        from advisor.tui.screens.history import History  # noqa: PLC0415 - not needed for the first sight

        self.app.push_screen(History())

    def action_start(self) -> None:
        """Probe with the answers so far."""
        if self._check():
            self.advisor.start_run()

    def action_preset(self) -> None:
        """Take the next preset."""
        from advisor.tui.steps.priorities import PrioritiesStep  # noqa: PLC0415 - not needed for the first sight

        if isinstance(self.step, PrioritiesStep):
            self.step.cycle_preset()

    def _check(self) -> bool:
        try:
            self.step.check()
        except UserError as problem:
            self.tell_problem(problem)
            return False
        self.tell_problem(None)
        return True

    async def _go(self, place: int) -> None:
        switcher = self.query_one(ContentSwitcher)
        if not self.query(f"#step-{place}"):
            await switcher.mount(_make_step(place))
        switcher.current = f"step-{place}"
        self.place = place
        self._show_waiting()
        self._crumbs()
        self.step.begin()
        if place == len(NAMES) - 1:
            self.advisor.propose()

    def show_machine(self, machine: Machine) -> None:
        """Tell the question about the target what is attached."""
        from advisor.tui.steps.target import TargetStep  # noqa: PLC0415 - as above

        for step in self.query(TargetStep):
            if step.has_begun:  # else it asks for the machine itself when it begins
                step.show_machine(machine)


def _make_step(place: int) -> Step:
    from advisor.tui.steps.plan import PlanStep  # noqa: PLC0415 - as above
    from advisor.tui.steps.priorities import PrioritiesStep  # noqa: PLC0415 - as above
    from advisor.tui.steps.target import TargetStep  # noqa: PLC0415 - as above

    return (ModelStep, TargetStep, PrioritiesStep, PlanStep)[place](id=f"step-{place}")
