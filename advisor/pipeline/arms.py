"""Which arms of a run have failed, have raced, or control every race."""

from __future__ import annotations

from advisor import measure
from advisor.domain.plan import Plan
from advisor.domain.run_state import RunState


def failed_arms(state: RunState) -> set[str]:
    """Return the arms that have ended otherwise than by being done."""
    return {
        arm
        for arm in state.processes
        if any(process.outcome for process in state.processes[arm])
        and not measure.is_valid(state, arm)
    }


def raced_arms(state: RunState) -> set[str]:
    """Return the arms that a race has had."""
    return {arm for groups in state.groups.values() for group in groups for arm in group.arms}


def controls(state: RunState) -> set[str]:
    """Return the baseline and its duplicate, which are in every group: without them nothing can be said."""
    plan = plan_of(state)
    return {plan.baseline.id, *(arm.id for arm in plan.arms if arm.duplicate_of)}


def plan_of(state: RunState) -> Plan:
    """Return the plan; a stored run always begins with it."""
    if state.plan is None:
        message = "the run has no plan"
        raise ValueError(message)
    return state.plan
