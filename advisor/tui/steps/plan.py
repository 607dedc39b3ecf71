"""Question 4: which arms are measured; excluded workflows are shown with the reason."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.domain.answer import Answer
from advisor.domain.workflow import Workflow
from advisor.execute.draft import DraftRun
from advisor.tui import run_starter
from advisor.tui.rendering import text
from advisor.tui.rendering.plan import (
    INSTALLABLE,
    describe_environment,
    describe_row,
    distinct_arms,
    find_workflow,
    plan_rows,
    plan_summary,
)
from advisor.tui.steps.step import Step
from advisor.tui.widgets.table import Column, Table


class PlanTable(Table):
    """The plan; enter starts the run."""

    HELP = """\
[x] is measured; space leaves it out. + could be measured after an installation: y copies the
command, m creates an environment for it. - cannot be measured on this machine; the lines below the
table give the reason."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Start")]


class PlanStep(Step):
    """The arms, which can be left out, and the excluded workflows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "leave_out", "Leave out", id="leave-out"),
        Binding(
            "m",
            "create_env",
            "Create environment",
            id="make",
            tooltip="create the environment of the workflow under the cursor",
        ),
        Binding(
            "y",
            "copy",
            "Copy command",
            id="copy",
            tooltip="copy the command that installs the workflow under the cursor",
        ),
    ]

    def compose(self) -> ComposeResult:
        """Yield the summary, the table, and the explanation of the row under the cursor."""
        yield Static("Making the plan ...", id="summary", classes="lead", markup=False)
        yield PlanTable(id="plan")
        yield Static("", id="explanation", markup=False)

    def on_mount(self) -> None:
        self._left_out: set[str] = set()
        self._draft: DraftRun | None = None

    def begin(self) -> None:
        """Remove the plan of earlier answers and make a new one."""
        self._draft = None
        self._show_no_rows("Making the plan ...")
        self.query_one(Table).focus()
        self._make_plan()

    def _make_plan(self) -> None:
        self.app.background.start("plan", lambda: run_starter.draft_or_answer(self.app), self.show)

    def _show_no_rows(self, summary: str) -> None:
        self.query_one("#summary", Static).update(summary)
        self.query_one("#explanation", Static).update("")
        self.query_one(Table).fill([], {})

    def show_no_plan(self) -> None:
        """Show that the answers give no plan."""
        self.query_one("#summary", Static).update("There is no plan: see the error below.")

    @property
    def is_ready(self) -> bool:
        return self._draft is not None

    def show(self, drafted: DraftRun | Answer) -> None:
        """Show a plan, or the answer for a GPU that is not attached."""
        if isinstance(drafted, Answer):
            self._draft = None
            self._show_no_rows(
                "That GPU is not attached, so nothing is measured.  Enter shows the known figures."
            )
            self.app.show_absent_gpu(drafted)
        else:
            self._draft = drafted
            self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._draft is None:
            return
        self.query_one(Table).fill(
            [
                Column("mark", "", 3),
                Column("arm", "Workflow", 20, most=36, is_name=True),
                Column("note", "On this machine", 10, most=400),
            ],
            plan_rows(self._draft, self._left_out),
            {entry.workflow: "dim" for entry in self._draft.plan.excluded},
        )
        summary = plan_summary(self._draft, self._left_out)
        self.query_one("#summary", Static).update(summary)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if self._draft is None or event.row_key.value is None:
            return
        self.refresh_bindings()
        self.query_one("#explanation", Static).update(
            describe_row(self._draft, event.row_key.value)
        )

    def action_leave_out(self) -> None:
        """Leave the arm under the cursor out, or measure it again."""
        row = self.query_one(Table).key_at_cursor()
        if self._draft is None or row is None:
            return
        if row == self._draft.plan.baseline.id:
            self.notify(
                "the baseline is always measured: all other arms are compared with it",
                markup=False,
            )
        elif row in {arm.id for arm in distinct_arms(self._draft)}:
            self._left_out ^= {row}
            self._draw()

    def action_copy(self) -> None:
        row = self.query_one(Table).key_at_cursor()
        excluded = self._draft.plan.excluded if self._draft is not None else ()
        fix = next((entry.fix for entry in excluded if entry.workflow == row), None)
        if fix:
            self.app.copy_to_clipboard(fix)
            self.notify(f"copied: {fix}", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Offer to create an environment only for a workflow that needs one."""
        return action != "create_env" or self._installable_workflow() is not None

    def _installable_workflow(self) -> Workflow | None:
        """Return the workflow under the cursor if it lacks only its own environment."""
        row = self.query_one(Table).key_at_cursor()
        if self._draft is None or row is None:
            return None
        installable = {
            entry.workflow for entry in self._draft.plan.excluded if entry.status == INSTALLABLE
        }
        workflow = find_workflow(self._draft, row) if row in installable else None
        return workflow if workflow and workflow.environment.kind == "own" else None

    def action_create_env(self) -> None:
        """Create the environment, then make the plan again."""
        workflow = self._installable_workflow()
        if workflow is None:
            return
        if self.app.run_controller.owned_host is not None:
            self.notify(
                "a run is in progress; creating an environment would disturb it",
                severity="warning",
                markup=False,
            )
            return
        self.app.ask_to_run(
            f"Create an environment for {text.printable(workflow.title, 60)}?",
            f"{text.printable(describe_environment(workflow.environment), 400)}\n"
            "Packages come from the package index that uv or pip use.",
            ("env", "create", workflow.environment_name),
            self._make_plan,
        )

    def on_data_table_row_selected(self) -> None:
        self.post_message(self.Answered())

    def store_answers(self) -> None:
        """Limit the question to the arms that were not left out."""
        if self._draft is not None and self._left_out:
            kept = [arm for arm in distinct_arms(self._draft) if arm.id not in self._left_out]
            self.change_answers(workflows=",".join(f"{arm.workflow}/{arm.option}" for arm in kept))
