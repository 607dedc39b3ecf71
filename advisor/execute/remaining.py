"""Which arms a run still has to measure, those that its findings call for among them."""

from __future__ import annotations

import collections

import msgspec

from advisor.ask.planning import is_chosen, list_arms, unsupported_use
from advisor.decide.race import replay_race, results_by_shape
from advisor.decide.rounds import controls, failed_arms, raced_arms
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.run_events import ArmsAdded
from advisor.domain.run_state import RunState
from advisor.domain.workflow import Workflow
from advisor.execute.expected_builds import with_expected_builds
from advisor.execute.run_in_progress import RunInProgress

#: A vision transformer has one layer that convolves images, which cuts them into patches.
LEAST_CONVOLUTIONS = 2


def needed_arms(state: RunState, question: Question) -> list[Arm]:
    """Return the arms that some race still has to visit, in build order.

    Arms of an open race come first: arms that wait must not take their memory. Arms that ran out of
    memory earlier come next, then the other arms that wait. Before a race opens, arms for which the
    disk was full are tried again.
    """
    plan = state.plan
    # A resumed run may have more space than before.
    lacked_disk_space = {
        arm
        for arm, processes in state.processes.items()
        if processes and processes[-1].failed_with("disk-full") and not processes[-1].ready
    }
    failed = failed_arms(state) - lacked_disk_space
    if plan.baseline.id in failed:
        return []
    needed: set[str] = set()
    for shape in question.shapes:
        if shape in state.last_groups and shape not in state.closed:
            needed |= set(replay_race(state, shape, question).due)
        elif shape not in state.last_groups:
            needed |= {each.id for each in plan.arms if each.id not in failed}
    waiting = waiting_arms(state, question)
    if waiting:
        needed |= {*waiting, *retained(state, question)}
    ran_out_of_memory = oom_beside_others(state)
    return sorted(
        (each for each in plan.arms if each.id in needed),
        key=lambda each: (each.id in waiting, each.id not in ran_out_of_memory),
    )


def waiting_arms(state: RunState, question: Question) -> set[str]:
    """Return the arms that have not raced although every shape has had a race.

    Memory was too short for them.
    """
    if not all(shape in state.last_groups for shape in question.shapes):
        return set()
    return (
        {each.id for each in state.plan.distinct}
        - raced_arms(state)
        - (failed_arms(state) - oom_beside_others(state))
    )


def retained(state: RunState, question: Question) -> set[str]:
    """Return the arms that stay resident for the next group: the controls and the leaders."""
    return {*controls(state), *leaders_to_keep(state, question)} - failed_arms(state)


def leaders_to_keep(state: RunState, question: Question) -> list[str]:
    """Return the best arm of each shape; the one that leads at most comes first.

    Leaders whose worker was stopped to free memory are left out, but at least one leader is
    returned if there is any.
    """
    counted = collections.Counter(
        result.best for result in results_by_shape(state, question).values()
    )
    leaders = [arm for arm, _ in counted.most_common() if arm != state.plan.baseline.id]
    return [arm for arm in leaders if state.processes[arm][-1].outcome is None] or leaders[:1]


def oom_beside_others(state: RunState) -> set[str]:
    """Return the arms that ran out of memory while several other arms were resident.

    Together with the controls and one leader they may still fit.
    """
    always_resident = controls(state)
    return {
        arm
        for arm, processes in state.processes.items()
        if processes and len(set(processes[-1].residents_at_oom) - always_resident) > 1
    }


def arms_to_add(progress: RunInProgress) -> list[ArmsAdded]:
    state, header = progress.state, progress.header
    pythons = {each.workflow: each.python for each in state.plan.arms}
    known = {each.id for each in state.plan.arms}
    found = []
    for workflow in header.catalogue.workflows:
        if workflow.id not in pythons:
            continue
        for finding, because in _findings(state, workflow).items():
            arms = [
                msgspec.structs.replace(planned, python=pythons[workflow.id])
                for planned in list_arms(workflow, header.question.device)
                if planned.called_for == finding
                and planned.id not in known
                and is_chosen(planned, header.question.workflows)
                and unsupported_use(workflow, planned, header.question) is None
            ]
            if arms:
                added = with_expected_builds(arms, header, progress.store)
                found.append(ArmsAdded(added=added, because=because))
    return found


def _findings(state: RunState, workflow: Workflow) -> dict[str, str]:
    """Return the reason for each finding, by its name in `Arm.called_for`."""
    found = {}
    arms = (each.id for each in state.plan.arms if each.workflow == workflow.id)
    if varying := next(filter(state.varies, arms), None):
        found["nondeterministic"] = f"the outputs of {varying} vary"
    opened = state.last_process(REFERENCE).opened
    if opened is not None and opened.convolutions >= LEAST_CONVOLUTIONS:
        found["convolutions"] = f"the model has {opened.convolutions} layers that convolve images"
    return found
