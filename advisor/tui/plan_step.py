"""Question 4: which arms are measured; excluded workflows are shown with the reason."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Static

from advisor.ask.devices import CPU
from advisor.ask.planning import is_named
from advisor.ask.resolve import parse_workflows
from advisor.domain.answer import Answer
from advisor.domain.plan import Arm, Excluded, ExclusionStatus
from advisor.domain.text import write_count
from advisor.domain.workflow import Environment, Workflow
from advisor.execute.drafts import DraftRun
from advisor.tui import actions, panels
from advisor.tui.actions import describe_work
from advisor.tui.form import Step
from advisor.tui.table import Column, SelectableTable, Table
from advisor.tui.widgets import bind


class PlanTable(SelectableTable):
    HELP = """\
[x] is measured; space leaves it out. + could be measured after an installation: the lines
below the table name the command, m creates an environment. - cannot be measured on this machine;
the lines give the reason."""


class PlanStep(Step):
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "confirm", "Start"),
        bind("space", "leave_out", "Leave out"),
        bind("m", "create_env", "Create environment", "create the workflow's environment"),
    ]

    _draft: DraftRun | None = None

    def compose(self) -> ComposeResult:
        yield Static("Making the plan ...", id="summary", classes="lead", markup=False)
        yield PlanTable(id="plan")
        yield Static("", id="explanation", markup=False)

    def on_mount(self) -> None:
        #: The ids of the arms in the table that are not measured.
        self._left_out: set[str] = set()

    def begin(self) -> None:
        self._draft = None
        self.show_no_rows("Making the plan ...")
        self.query_one(Table).focus()
        self._make_plan()

    def _make_plan(self) -> None:
        """Draft the run including the arms that are left out, so that they can be chosen again."""
        self.app.background.start(
            "plan", lambda: actions.draft_or_answer(self.app, leave_out=""), self.show
        )

    def show_no_rows(self, summary: str) -> None:
        """Show why there is no plan."""
        self.query_one("#summary", Static).update(summary)
        self.query_one("#explanation", Static).update("")
        self.query_one(Table).fill([], {})

    @property
    def is_ready(self) -> bool:
        return self._draft is not None

    def show(self, drafted: DraftRun | Answer) -> None:
        if isinstance(drafted, Answer):
            self._draft = None
            self.show_no_rows(
                "That GPU is not attached, so nothing is measured.  Enter shows the known figures."
            )
            self.app.run_controller.show_absent_gpu(drafted)
            return
        with self.app.showing_errors():
            names = parse_workflows(self.run_options.leave_out, drafted.catalogue)
            named = [each for each in drafted.plan.distinct if is_named(each.name, names)]
            self._left_out = {each.id for each in named}
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
            {str(each.name): "dim" for each in self._draft.plan.excluded},
        )
        more = sum(each.status == INSTALLABLE for each in self._draft.plan.excluded)
        installable = f"  {more} more can be installed." if more else ""
        summary = describe_work(self._draft, self._left_out) + installable
        self.query_one("#summary", Static).update(summary)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        row = event.row_key.value
        # The message may be about a row of the plan before.
        if self._draft is None or row is None or row not in list_rows(self._draft):
            return
        self.refresh_bindings()
        self.query_one("#explanation", Static).update(describe_row(self._draft, row))

    def action_leave_out(self) -> None:
        row = self.query_one(Table).key_at_cursor()
        if self._draft is None or row is None:
            return
        # One that the command line leaves out can be chosen again.
        if row == self._draft.plan.baseline.id and row not in self._left_out:
            self.notify("the baseline is always measured: all other arms are compared with it")
        elif row in {each.id for each in self._draft.plan.distinct}:
            self._left_out ^= {row}
            self._store_left_out(self._draft)
            self.post_message(self.Validated(None))
            self._draw()

    def _store_left_out(self, draft: DraftRun) -> None:
        """Store the arms by their names, and keep what names none of the table."""
        arms = draft.plan.distinct
        names = [
            each
            for each in parse_workflows(self.run_options.leave_out, draft.catalogue)
            if not any(is_named(one.name, [each]) for one in arms)
        ]
        names += [str(each.name) for each in arms if each.id in self._left_out]
        self.change_options(leave_out=",".join(names))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's interface
        if action in {"confirm", "leave_out"}:
            return self.is_ready
        return action != "create_env" or self._installable_row() is not None

    def _installable_row(self) -> tuple[Workflow, Environment] | None:
        """Return the workflow under the cursor and the environment, if it lacks only that."""
        row = self.query_one(Table).key_at_cursor()
        if self._draft is None or row is None:
            return None
        excluded = list_rows(self._draft).get(row)
        if not isinstance(excluded, Excluded) or excluded.status != INSTALLABLE:
            return None
        workflow = self._draft.catalogue.by_id[excluded.workflow]
        environment = find_environment(workflow, excluded)
        return (workflow, environment) if environment else None

    def action_create_env(self) -> None:
        found = self._installable_row()
        if found is None or self.app.run_controller.refuse_if_busy():
            return
        workflow, environment = found
        self.app.ask_to_run(
            f"Create an environment for {panels.printable(workflow.title, 60)}?",
            f"{panels.printable(describe_environment(environment), 400)}\n"
            "Packages come from the package index that uv or pip use.",
            ("env", "create", environment.name or workflow.id),
            self._make_plan,
        )

    def action_confirm(self) -> None:
        self.post_message(self.Answered())

    on_data_table_row_selected = action_confirm


#: Status of a workflow that can be measured on this machine after an installation.
INSTALLABLE: ExclusionStatus = "not-installed"


def list_rows(draft: DraftRun) -> dict[str, Arm | Excluded]:
    """Return what each row is about, by its key: first the arms, then what can be installed."""
    excluded = sorted(draft.plan.excluded, key=lambda each: each.status != INSTALLABLE)
    arms: dict[str, Arm | Excluded] = {each.id: each for each in draft.plan.distinct}
    return arms | {str(each.name): each for each in excluded}


def find_environment(workflow: Workflow, excluded: Excluded) -> Environment | None:
    """Return the environment that the workflow or the arm has to itself; None without one.

    An arm that is excluded alone may lack that of its quantiser: others run in the workflow's.
    """
    needed = workflow.arm(excluded.option).quantiser if excluded.option else workflow.environment
    return needed if needed and needed.kind == "own" else None


def plan_rows(draft: DraftRun, left_out: Collection[str]) -> dict[str, dict[str, str]]:
    rows = {}
    for row, listed in list_rows(draft).items():
        if isinstance(listed, Excluded):
            mark, note = " + " if listed.status == INSTALLABLE else " - ", listed.reason
        else:
            mark, note = "[ ]" if row in left_out else "[x]", _requirements(draft, listed)
        rows[row] = {"mark": mark, "arm": row, "note": note}
    return rows


def _requirements(draft: DraftRun, planned: Arm) -> str:
    """Return the changes of the code that an arm needs, and the devices it was verified on.

    The kind of the device that is measured comes first, because the end may be cut off.
    """
    if planned == draft.plan.baseline:
        return "the baseline"
    workflow = draft.catalogue.by_id[planned.workflow].for_arm(planned.option)
    lines = workflow.declared.lines_changed.value
    export = ", with an export" if workflow.declared.export_step.value else ""
    question = draft.question
    present = " ".join(gpu.name for gpu in draft.machine.gpus if gpu.uuid in question.gpus) or CPU
    # Each kind of device is followed by a date.
    kinds = sorted(workflow.verified, key=lambda kind: kind.rpartition(" ")[0] not in present)
    verified = ", ".join(kinds) or "never"
    return f"{write_count(lines, 'line')} changed{export}; verified: {verified}"


def describe_row(draft: DraftRun, row: str) -> Text:
    listed = list_rows(draft)[row]
    workflow = draft.catalogue.by_id[listed.workflow]
    if isinstance(listed, Excluded):
        lines = [panels.printable(listed.reason, 600)]
        if listed.fix:
            lines.append(f"next: {panels.printable(listed.fix, 600)}")
        if environment := find_environment(workflow, listed):
            lines.append(panels.printable(describe_environment(environment), 400))
    else:
        options = ", ".join(f"{name} = {value}" for name, value in listed.options.items())
        shown = panels.printable(options or "defaults of the stack", 300)
        lines = [_requirements(draft, listed), f"options: {shown}"]
    title = panels.styled(panels.printable(workflow.title), "bold")
    return title + Text("".join(f"\n{line}" for line in lines))


def describe_environment(environment: Environment) -> str:
    packages = ", ".join(environment.requirements)
    return f"a separate environment with {packages}: {environment.terms}"
