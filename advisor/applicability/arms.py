"""List the arms of a workflow, and decide which of them a question asks for and can use."""

from __future__ import annotations

from typing import Literal

from packaging.requirements import Requirement

from advisor.domain.plan import BASELINE, Arm
from advisor.domain.question import Question
from advisor.domain.workflow import DEFAULT_OPTION, Workflow


def list_arms(workflow: Workflow, device: Literal["cpu", "cuda"], python: str = "") -> list[Arm]:
    """Return one arm for each set of options of the workflow, on any device."""
    requirements = [Requirement(text) for text in workflow.environment.requirements]
    extras = {each.name: tuple(sorted(each.extras)) for each in requirements if each.extras}
    return [
        Arm(
            id=workflow.id if option == DEFAULT_OPTION else f"{workflow.id}/{option}",
            workflow=workflow.id,
            option=option,
            options=options,
            python=python,
            builds_alone=device in workflow.builds_alone_on,
            weights=workflow.arm_weights.get(option),
            artefact=workflow.arm_artefact.get(option, ""),
            eager_fallback=bool(workflow.eager_fallback and workflow.eager_fallback.value),
            dtypes=workflow.arm_dtypes.get(option, workflow.dtypes),
            extras=extras,
        )
        for option, options in workflow.arms.items()
    ]


def unsupported_use(workflow: Workflow, arm: Arm, question: Question) -> str | None:
    """Return the question's device, precision or task if the arm does not support it.

    A model's own precision is known only to the worker that opens it, which refuses it then.
    """
    if question.device not in workflow.arm_devices.get(arm.option, workflow.devices):
        return question.device
    if question.dtype not in {"native", *workflow.arm_dtypes.get(arm.option, workflow.dtypes)}:
        return question.dtype
    return (
        None
        if question.task in workflow.arm_tasks.get(arm.option, workflow.tasks)
        else question.task
    )


def is_on_request(workflow: Workflow, arm: Arm, question: Question) -> bool:
    """Return whether the arm is measured only if it is named, or if a fallback is needed."""
    is_slow = question.device in workflow.arm_on_request.get(arm.option, ())
    return is_slow or arm.option in workflow.arms_after_nondeterministic


def is_chosen(arm: Arm, chosen: tuple[str, ...]) -> bool:
    """Return whether the list names the arm or its workflow; the baseline is always chosen."""
    return (
        not chosen
        or arm.id == BASELINE
        or bool({arm.id, arm.workflow, f"{arm.workflow}/{arm.option}"} & {*chosen})
    )
