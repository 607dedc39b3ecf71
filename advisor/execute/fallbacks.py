"""Add the arms that a workflow has for models with which the outputs of its other arms vary."""

from __future__ import annotations

import msgspec

from advisor.ask.planning import is_chosen, list_arms, unsupported_use
from advisor.decide.arm_states import plan_of
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import ArmsAdded
from advisor.domain.run_state import RunState
from advisor.domain.workflow import Workflow


def arms_to_add(state: RunState, header: Header) -> ArmsAdded | None:
    """Return the next arms that the plan lacks; None if no workflow needs one."""
    for workflow in header.catalogue.workflows:
        varying = _varying_arm(state, workflow)
        if varying is None:
            continue
        planned = {arm.id for arm in plan_of(state).arms}
        added = tuple(
            arm for arm in _fallbacks(workflow, varying, header.question) if arm.id not in planned
        )
        if added:
            return ArmsAdded(added=added, instead_of=varying.id)
    return None


def _varying_arm(state: RunState, workflow: Workflow) -> Arm | None:
    """Return the first arm of the workflow whose outputs vary."""
    return next(
        (
            arm
            for arm in plan_of(state).arms
            if arm.workflow == workflow.id
            and any(
                process.failed_with("nondeterministic")
                for process in state.processes.get(arm.id, ())
            )
        ),
        None,
    )


def _fallbacks(workflow: Workflow, varying: Arm, question: Question) -> list[Arm]:
    """Return the arms that the question allows; they run where the varying arm does."""
    return [
        msgspec.structs.replace(arm, python=varying.python)
        for arm in list_arms(workflow, question.device)
        if arm.option in workflow.arms_after_nondeterministic
        and is_chosen(arm, question.workflows)
        and unsupported_use(workflow, arm, question) is None
    ]
