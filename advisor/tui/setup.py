"""Ask the four questions: model, target, priorities and plan.

Each has a default answer, so that ctrl+r can start a run from any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Static

from advisor.domain.answer import Problem
from advisor.domain.errors import UserError
from advisor.domain.machine import Machine
from advisor.domain.text import truncate_middle
from advisor.tui import panels
from advisor.tui.advisor_screen import AdvisorScreen
from advisor.tui.form import Step
from advisor.tui.model_step import ModelStep
from advisor.tui.priorities_step import PrioritiesStep
from advisor.tui.target_step import TargetStep
from advisor.tui.widgets import bind

if TYPE_CHECKING:
    from advisor.tui.plan_step import PlanStep

STEP_NAMES = ("Model", "Target", "Priorities", "Plan")
LAST_STEP = len(STEP_NAMES) - 1
#: Cells of an answer in the title.
ANSWER_WIDTH = 18


class SetupScreen(AdvisorScreen):
    HELP_TEXT = """\
Four questions, each with a default answer: enter goes to the next, esc to the previous, ctrl+r
starts a run with the current answers. Nothing is installed and nothing leaves this machine.
Several input tokens, such as 32,512,2048, are measured in one run, with an answer for their mix, in
which each length has a share.
Bars: arrows change a weight by 5, with shift by 1."""
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("question_mark", "help"),  # text in the fields, so the last line shows F1
        bind("enter", "next", "Next"),
        bind("ctrl+r", "start", "Run now"),
    ]
    step_index = 0

    def compose_body(self) -> ComposeResult:
        """Yield the first question; the others are mounted when they are asked."""
        with Vertical(id="body"):
            yield ContentSwitcher(ModelStep(id="step-0"), initial="step-0", id="steps")
        yield Static("", id="error", markup=False)

    def on_mount(self) -> None:
        self.step.begin()

    def restart(self) -> None:
        """Show the first question; what was entered stays."""
        if self.is_mounted:
            self._ask(0)

    @property
    def step(self) -> Step:
        return cast("Step", self.query_one(f"#step-{self.step_index}"))

    def draw(self) -> None:
        line = Text()
        for index, name in enumerate(STEP_NAMES):
            mark = "\N{CHECK MARK}" if index < self.step_index else f"{index + 1}"
            style = "bold" if index == self.step_index else "dim" if index > self.step_index else ""
            shown = self._answer_of(index) if index < self.step_index else name
            line.append(f"{mark} {truncate_middle(shown, ANSWER_WIDTH)}", style)
            if index < LAST_STEP:
                line.append("  \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}  ", "dim")
        self.set_title(line)
        self.refresh_bindings()

    def _answer_of(self, index: int) -> str:
        run_options = self.app.run_options
        device = "CPU" if run_options.gpu == "cpu" else f"GPU {run_options.gpu}".strip()
        precision = "" if run_options.dtype == "auto" else f" {run_options.dtype}"
        default = self.app.catalogue.presets.default_preset
        priorities = "own weights" if run_options.priority else run_options.preset or default
        values = (run_options.model, device + precision, priorities)
        return panels.printable(values[index]) or STEP_NAMES[index]

    def show_error(self, error: UserError | Problem | None) -> None:
        notice = self.query_one("#error", Static)
        notice.set_class(error is not None, "-shown")
        if error is None:
            return
        self.app.clear_notifications()  # they would cover the error
        what, next_step = panels.printable(error.what, 600), panels.printable(error.next_step, 300)
        notice.update(f"{what}\nnext: {next_step}")
        if self.step_index == LAST_STEP:
            plan = cast("PlanStep", self.step)
            if not plan.is_ready:
                plan.show_no_rows("There is no plan: see the error below.")

    def show_machine(self, machine: Machine) -> None:
        for step in self.query(TargetStep):
            if step.has_begun:  # otherwise it reads the machine when it begins
                step.show_machine(machine)

    def on_step_validated(self, event: Step.Validated) -> None:
        self.show_error(event.error)

    def action_next(self) -> None:
        if self.step_index == LAST_STEP:
            self.action_start()
        elif self._store_options():
            self._ask(self.step_index + 1)

    on_step_answered = action_next

    def action_back(self) -> None:
        if self.step_index == 0:
            self.app.action_home()
        else:
            self._ask(self.step_index - 1)

    def action_start(self) -> None:
        if self.step_index == LAST_STEP and not cast("PlanStep", self.step).is_ready:
            self.notify("the plan is not ready", timeout=2)
        elif self._store_options():
            self.app.action_start_now(*([""] if self.step_index == LAST_STEP else []))

    def _store_options(self) -> bool:
        """Store the answer; return False after showing why it is invalid."""
        try:
            self.step.store_options()
        except UserError as error:
            self.show_error(error)
            return False
        self.show_error(None)
        return True

    def _ask(self, index: int) -> None:
        self.show_error(None)
        self.run_worker(self._go_to(index), group="steps", exclusive=True)

    async def _go_to(self, index: int) -> None:
        from advisor.tui.plan_step import PlanStep

        switcher = self.query_one(ContentSwitcher)
        if not self.query(f"#step-{index}"):
            kinds = (ModelStep, TargetStep, PrioritiesStep, PlanStep)
            await switcher.mount(kinds[index](id=f"step-{index}"))
        switcher.current = f"step-{index}"
        self.step_index = index
        self.draw()
        self.step.begin()
