"""Which arms a run still has to measure, which it can skip, and which it adds."""

from __future__ import annotations

import collections

import msgspec

from advisor.ask.planning import is_chosen, is_named, list_arms, unsupported_use
from advisor.decide.race import replay_race, results_by_shape
from advisor.decide.scoring import Potential, potential_of
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Question
from advisor.domain.results import ScoredArm
from advisor.domain.run_events import ArmsAdded
from advisor.domain.run_state import RunState
from advisor.domain.workflow import Workflow
from advisor.execute.active_run import ActiveRun
from advisor.execute.expected_builds import with_expected_builds
from probes.outcome import Failure, FailureStatus

#: A vision transformer has one layer that convolves images, which cuts them into patches.
LEAST_CONVOLUTIONS = 2
#: How arms fail for what they may share with others of their workflow.
SHARED: set[FailureStatus] = {"unsupported", "build-failed", "not-engaged"}


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
    failed = state.failed_arms - lacked_disk_space
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

    They were not built yet, or memory was too short for them.
    """
    if not all(shape in state.last_groups for shape in question.shapes):
        return set()
    return (
        {each.id for each in state.plan.distinct}
        - state.raced_arms
        - (state.failed_arms - oom_beside_others(state))
    )


def retained(state: RunState, question: Question) -> set[str]:
    """Return the arms that stay resident for the next group: the baselines and the leaders."""
    return {*state.baselines, *leaders_to_keep(state, question)} - state.failed_arms


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

    Together with the baselines and one leader they may still fit.
    """
    always_resident = state.baselines
    return {
        arm
        for arm, processes in state.processes.items()
        if processes and len(set(processes[-1].residents_at_oom) - always_resident) > 1
    }


def failure_of_sibling(state: RunState, planned: Arm) -> Failure | None:
    """Return the failure of another arm of the workflow that this one would have, too.

    Arms of the same precisions open the same models, and those with one artefact build the same.
    What a stack refuses or does not run without an option, it does not run with it. Where two arms
    failed alike, it is for what they share.
    """
    alike = collections.Counter[tuple[str, str]]()
    for other in state.plan.arms:
        failure = state.last_process(other.id).failure
        if (
            failure is None
            or other.workflow != planned.workflow
            or other.id == planned.id
            or failure.status not in SHARED
        ):
            continue
        alike[failure.status, failure.reason] += 1
        has_its_options = other.options.items() <= planned.options.items()
        builds_same = bool(planned.artefact) and other.artefact == planned.artefact
        if failure.status == "not-engaged":
            is_shared = has_its_options
        elif failure.status == "unsupported" and failure.phase == "open":
            is_shared = other.dtypes == planned.dtypes
        else:
            is_shared = builds_same or (failure.status == "unsupported" and has_its_options)
        if is_shared or alike[failure.status, failure.reason] > 1:
            return failure
    return None


def skips_losing_arms(question: Question) -> bool:
    """Return whether arms that cannot lead are left out: the user did not ask for them."""
    return question.budget.skips_losing_arms and not question.all_arms and not question.workflows


def arms_that_cannot_lead(answer: Answer, catalogue: Catalogue) -> dict[str, Failure]:
    """Return the arms without a measurement that cannot score more than the advised arm.

    Each has the reason. There is no such arm where the budget builds all arms, where the user named
    workflows, and while the decision is OPEN.
    """
    question, advice = answer.question, answer.recommendation
    if (
        not skips_losing_arms(question)
        or answer.advised is None
        or advice is None
        or advice.decision.word not in {"CLEAR", "LIKELY"}
    ):
        return {}
    advised = answer.advised.scored
    negligible = catalogue.rubric.decision.negligible_loss
    found = {
        each.arm: potential_of(each, question, answer.results, catalogue)
        for each in answer.unmeasured
        if each.status == "not-reached"
    }
    return {
        arm: Failure(
            "skipped", "build", _reason(each, advised, negligible), skip_cause="cannot-lead"
        )
        for arm, each in found.items()
        if each is not None and each.score_with_bonus <= advised.score + advised.bonus + negligible
    }


def _reason(found: Potential, advised: ScoredArm, negligible: float) -> str:
    most = (
        f"not built: {found.speedup:.2g}x and {found.score:.2f} points expected at most, where"
        f" {advised.arm} has {advised.score:.2f} at the weights of the run"
    )
    if found.score > advised.score:
        most += f", and a lead of {negligible:g} points is too small to count"
    if found.gain is None:
        return most
    gain = f"at most {found.gain.largest:.2g}x as fast as {found.sibling}"
    return f"{most}; it was {gain} in {found.gain.runs} runs"


def arms_to_add(active: ActiveRun) -> list[ArmsAdded]:
    state, header = active.state, active.header
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
                and not is_named(planned.name, header.question.leave_out)
                and unsupported_use(workflow, planned, header.question) is None
            ]
            if arms:
                added = with_expected_builds(arms, header, active.store)
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
