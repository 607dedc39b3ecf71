"""Render the plan of a run: its rows, its summary, and the explanation of one row."""

from __future__ import annotations

import math
from collections.abc import Collection

from rich.text import Text

from advisor.domain.environment import Environment
from advisor.domain.plan import Arm, ExclusionStatus
from advisor.domain.question import Question
from advisor.domain.workflow import Workflow
from advisor.execute.draft import DraftRun
from advisor.report.setup_facts import list_numbers
from advisor.tui.rendering import text

#: Status of a workflow that can be measured on this machine after an installation.
INSTALLABLE: ExclusionStatus = "not-installed"


def distinct_arms(draft: DraftRun) -> list[Arm]:
    return [arm for arm in draft.plan.arms if arm.duplicate_of is None]


def find_workflow(draft: DraftRun, row: str) -> Workflow | None:
    """Return the workflow of a row; its key is the id of an arm or of an excluded workflow."""
    workflow_id = next((arm.workflow for arm in draft.plan.arms if arm.id == row), row)
    return next((each for each in draft.catalogue.workflows if each.id == workflow_id), None)


def plan_rows(draft: DraftRun, left_out: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the cells of each row: first the arms, then what can be installed."""
    rows = {
        arm.id: {
            "mark": "[ ]" if arm.id in left_out else "[x]",
            "arm": arm.id,
            "note": _requirements(draft, arm.id),
        }
        for arm in distinct_arms(draft)
    }
    rows |= {
        entry.workflow: {
            "mark": " + " if entry.status == INSTALLABLE else " - ",
            "arm": entry.workflow,
            "note": f"{entry.status}: {entry.reason}",
        }
        for entry in sorted(draft.plan.excluded, key=lambda entry: entry.status != INSTALLABLE)
    }
    return rows


def _requirements(draft: DraftRun, arm: str) -> str:
    """Return the changes of the code that an arm needs, and the GPUs it was verified on."""
    workflow = find_workflow(draft, arm)
    if arm == draft.plan.baseline.id or workflow is None:
        return "the baseline"
    lines = workflow.declared.lines_changed.value
    export = ", with an export" if workflow.declared.export_step.value else ""
    verified = ", ".join(workflow.verified) or "never"
    return f"{lines} line{'' if lines == 1 else 's'} changed{export}; verified: {verified}"


def plan_summary(draft: DraftRun, left_out: Collection[str]) -> str:
    """Return the summary: the number of arms, the question, and the time."""
    question = draft.question
    measured = len(distinct_arms(draft)) - len(left_out)
    sizes = ", ".join(map(str, question.batch_sizes))
    batch = "" if question.load else f", batch {sizes}"
    summary = (
        f"{measured} ways to {_task(question)}{batch},"
        f" {question.dtype}.  At most {_most_time(draft, left_out)}."
    )
    installable = sum(entry.status == INSTALLABLE for entry in draft.plan.excluded)
    return f"{summary}  {installable} more can be installed." if installable else summary


def _most_time(draft: DraftRun, left_out: Collection[str]) -> str:
    """Return the limit of the run; of servers, the time of all blocks of the search and after."""
    question, rules = draft.question, draft.catalogue.serving
    if math.isfinite(question.seconds):
        return f"{question.seconds:g} s, builds included"
    if question.load is None or rules is None:
        return f"{question.budget.measuring_seconds:g} s + builds"
    arms = len(distinct_arms(draft)) - len(left_out)
    blocks = rules.most_blocks + len(rules.repeat_rates)
    of_block = rules.seconds_of_block(question.budget.name, question.load.ttft_seconds)
    return f"{arms * blocks * of_block:g} s + builds"


def _task(question: Question) -> str:
    name = text.printable(question.model.name, 30)
    inputs = list_numbers(each.input_tokens for each in question.lengths)
    outputs = list_numbers(each.output_tokens for each in question.lengths)
    if question.task == "forward":
        return f"run {name}" + (f" on {inputs} tokens" if len(question.lengths) > 1 else "")
    if question.load is not None:
        return f"serve {name}: {question.load.limits}"
    return f"generate {outputs} tokens from {inputs} with {name}"


def describe_row(draft: DraftRun, row: str) -> Text:
    """Return the explanation of a row: the options of an arm, or why a workflow is excluded."""
    workflow = find_workflow(draft, row)
    lines = []
    excluded = next((entry for entry in draft.plan.excluded if entry.workflow == row), None)
    if excluded is not None:
        lines.append(text.printable(excluded.reason, 600))
        if excluded.fix:
            lines.append(f"next: {text.printable(excluded.fix, 600)}")
        if (
            workflow is not None
            and excluded.status == INSTALLABLE
            and workflow.environment.kind == "own"
        ):
            lines.append(text.printable(describe_environment(workflow.environment), 400))
    elif workflow is not None:
        options = next((arm.options for arm in draft.plan.arms if arm.id == row), {})
        values = ", ".join(f"{name} = {value}" for name, value in options.items())
        lines.append(_requirements(draft, row))
        lines.append(f"options: {text.printable(values or 'defaults of the stack', 300)}")
    title = text.styled(text.printable(workflow.title if workflow else row), "bold")
    return title + Text("".join(f"\n{line}" for line in lines))


def describe_environment(environment: Environment) -> str:
    footprint = environment.footprint
    size = (
        f"{footprint.disk_mib} MiB on disk, created in {footprint.seconds} s ({footprint.where})"
        if footprint
        else "its size is not known yet"
    )
    licence = f"; licence {environment.licence}" if environment.licence else ""
    packages = ", ".join(environment.requirements)
    return f"a separate environment with {packages}: {size}{licence}"
