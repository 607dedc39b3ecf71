"""Question 4: what will be measured, what will not and why."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Static

from advisor.applicability import environment_name
from advisor.domain.question import Question
from advisor.domain.workflow import Environment, Workflow
from advisor.pipeline.draft import DraftRun
from advisor.report.document import RunDocument
from advisor.tui import text
from advisor.tui.run.host_process import OURSELVES
from advisor.tui.steps.step import Step
from advisor.tui.widgets.table import Column, Table

BASELINE = "the baseline"
#: Status of a workflow that could be measured here if something were installed.
ADDABLE = "not-installed"


class PlanTable(Table):
    """The plan; enter starts it."""

    HELP = """\
[x] is measured; space leaves it out. + could be measured here if it were installed: y copies the command,
m makes an environment for it.
- cannot be measured here; the lines below the table say why."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Start")]


class PlanStep(Step):
    """The arms, each to be left out or not, and the workflows that cannot be measured here, each with its reason."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "leave_out", "Leave out", id="leave-out"),
        Binding(
            "m",
            "make",
            "Make environment",
            id="make",
            tooltip="make the environment of the workflow under the cursor",
        ),
        Binding(
            "y",
            "copy",
            "Copy command",
            id="copy",
            tooltip="copy the command that adds the workflow under the cursor",
        ),
    ]

    def compose(self) -> ComposeResult:
        """Make summary, table and the words about the row under the cursor."""
        yield Static("Looking at the machine ...", id="summary", classes="lead", markup=False)
        yield PlanTable(id="plan")
        yield Static("", id="why", markup=False)

    def on_mount(self) -> None:
        """Begin without a plan."""
        self._left_out: set[str] = set()
        self._proposal: DraftRun | None = None

    def begin(self) -> None:
        """Take the focus."""
        self.query_one(Table).focus()

    def show(self, found: DraftRun | RunDocument) -> None:
        """Show a plan; where the GPU is not here, what is known of it."""
        if isinstance(found, RunDocument):
            self._proposal = None
            self.query_one("#summary", Static).update(
                "That GPU is not here, so nothing is measured.  Enter shows what is known of it."
            )
            self.query_one(Table).fill({})
            self.advisor.runs.show_elsewhere(found)
        else:
            self._proposal = found
            self._draw()

    def on_resize(self) -> None:
        """Lay the table out for the width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._proposal is None:
            return
        plan, asked = self._proposal.plan, self._proposal.question
        arms = [arm for arm in plan.arms if arm.duplicate_of is None]
        width = max(self.screen.size.width, 60)
        table = self.query_one(Table)
        table.lay_out(
            [
                Column("on", "", 3),
                Column("arm", "Workflow", 36),
                Column("how", "Here", max(width - 48, 10)),
            ]
        )
        rows = {
            arm.id: {"on": self._mark(arm.id), "arm": arm.id, "how": self._how(arm.id)}
            for arm in arms
        }
        rows |= {
            entry.workflow: {
                "on": " + " if entry.status == ADDABLE else " - ",
                "arm": entry.workflow,
                "how": text.plain(f"{entry.status}: {entry.reason}", 400),
            }
            for entry in plan.excluded
        }
        table.fill(rows, {entry.workflow: "dim" for entry in plan.excluded})
        measured = len(arms) - len(self._left_out)
        sizes = ", ".join(map(str, asked.batch_sizes))
        words = f"{measured} ways to {describe_work(asked)}, batch {sizes}, {asked.dtype}.  "
        words += f"At most {asked.budget.measuring_seconds:g} s + builds."
        addable = sum(entry.status == ADDABLE for entry in plan.excluded)
        words += f"  {addable} more can be added." if addable else ""
        self.query_one("#summary", Static).update(words)

    def _mark(self, arm: str) -> str:
        return "[ ]" if arm in self._left_out else "[x]"

    def _how(self, arm: str) -> str:
        assert self._proposal is not None  # noqa: S101 - only called with one
        if arm == self._proposal.plan.baseline.id:
            return BASELINE
        workflow = next(
            entry
            for entry in self._proposal.catalogue.workflows
            if entry.id == arm.partition("/")[0]
        )
        lines = workflow.declared.lines_changed.value
        export = ", with an export" if workflow.declared.export_step.value else ""
        verified = ", ".join(workflow.verified) or "never"
        return f"{lines} line{'' if lines == 1 else 's'} changed{export}; verified: {verified}"

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Tell about the row."""
        event.stop()
        if self._proposal is None or event.row_key.value is None:
            return
        self.refresh_bindings()
        key = event.row_key.value
        excluded = next(
            (entry for entry in self._proposal.plan.excluded if entry.workflow == key), None
        )
        workflow = next(
            (
                entry
                for entry in self._proposal.catalogue.workflows
                if entry.id == key.partition("/")[0]
            ),
            None,
        )
        words = Text(text.plain(workflow.title if workflow else key), "bold")
        if excluded is not None:
            words += Text(f"\n{text.plain(excluded.reason, 600)}", "")
            words += Text(f"\nnext: {text.plain(excluded.fix, 600)}" if excluded.fix else "", "")
            if (
                workflow is not None
                and excluded.status == ADDABLE
                and workflow.environment.kind == "own"
            ):
                words += Text(f"\n{text.plain(describe_environment(workflow.environment), 400)}")
        elif workflow is not None:
            options = next((arm.options for arm in self._proposal.plan.arms if arm.id == key), {})
            given = (
                ", ".join(f"{name} = {value}" for name, value in options.items())
                or "the stack's defaults"
            )
            words += Text(f"\n{self._how(key)}\noptions: {text.plain(given, 300)}", "")
        self.query_one("#why", Static).update(words)

    def action_leave_out(self) -> None:
        """Leave the arm under the cursor out, or take it in again."""
        key = self.query_one(Table).key_at_cursor()
        if self._proposal is None or key is None:
            return
        arms = {arm.id for arm in self._proposal.plan.arms if arm.duplicate_of is None}
        if key == self._proposal.plan.baseline.id:
            self.notify(
                "everything is compared with the baseline, so it is always measured", markup=False
            )
        elif key in arms:
            self._left_out ^= {key}
            self._draw()

    def action_copy(self) -> None:
        """Copy the command that adds the workflow under the cursor."""
        key = self.query_one(Table).key_at_cursor()
        excluded = self._proposal.plan.excluded if self._proposal is not None else ()
        fix = next((entry.fix for entry in excluded if entry.workflow == key), None)
        if fix:
            self.app.copy_to_clipboard(fix)
            self.notify(f"copied: {fix}", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        """Offer to make an environment where there is none for the workflow under the cursor."""
        return action != "make" or self._addable() is not None

    def _addable(self) -> Workflow | None:
        """Return the workflow under the cursor if an environment of its own is all that it lacks."""
        if self._proposal is None:
            return None
        key = self.query_one(Table).key_at_cursor()
        lacking = {
            entry.workflow for entry in self._proposal.plan.excluded if entry.status == ADDABLE
        }
        own = (
            entry
            for entry in self._proposal.catalogue.workflows
            if entry.id in lacking and entry.environment.kind == "own"
        )
        return next((entry for entry in own if entry.id == key), None)

    def action_make(self) -> None:
        """Make the environment, then the plan anew."""
        workflow = self._addable()
        if workflow is None:
            return
        if self.advisor.runs.owned is not None:
            self.notify(
                "a run goes on; making an environment would disturb it",
                severity="warning",
                markup=False,
            )
            return
        from advisor.tui.create_env_dialog import Making  # noqa: PLC0415 - only when asked for

        def made(there: bool | None) -> None:  # noqa: FBT001 - the value of a screen
            if there:
                self.advisor.propose()

        command = (*OURSELVES, "env", "create", environment_name(workflow))
        words = text.plain(describe_environment(workflow.environment), 400)
        self.app.push_screen(
            Making(workflow.title, words, command, self.advisor.world.environment), made
        )

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Start."""
        event.stop()
        self.advisor.run_next_step()

    def check(self) -> None:
        """Limit the plan to what is left in it."""
        if self._proposal is not None and self._left_out:
            kept = [
                arm
                for arm in self._proposal.plan.arms
                if arm.duplicate_of is None and arm.id not in self._left_out
            ]
            self.answer(workflows=",".join(f"{arm.workflow}/{arm.option}" for arm in kept))


def describe_work(asked: Question) -> str:
    """Return what is done with the model."""
    name = text.plain(asked.model.name, 30)
    return (
        f"generate {asked.output_tokens} tokens from {asked.input_tokens} with {name}"
        if asked.task == "generate"
        else f"run {name}"
    )


def describe_environment(environment: Environment) -> str:
    """Return what making a workflow's own environment brings and takes, as far as it was seen."""
    seen = environment.seen
    size = (
        f"{seen.disk_mib} MiB on disk, made in {seen.seconds} s ({seen.where})"
        if seen
        else "size not known yet"
    )
    licence = f"; licence {environment.licence}" if environment.licence else ""
    return f"an environment of its own with {', '.join(environment.requirements)}: {size}{licence}"
