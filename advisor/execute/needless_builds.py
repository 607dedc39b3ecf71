"""Arms whose builds bring nothing, whatever time is left.

They would fail as another arm did, cannot pay for their builds, or cannot lead.
"""

from __future__ import annotations

import collections

from advisor.decide.unmeasured import Potential, potential_of
from advisor.domain.answer import Answer
from advisor.domain.catalogue import Catalogue
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.results import ScoredArm
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.text import write_count
from advisor.probing.worker_process import BuildLimit
from probes.outcome import Failure, FailureStatus
from probes.shape import Shape

#: Factor on the seconds of a call of a built arm: calls timed during the warm-up scatter, and the
#: limit must not be too strict.
ALLOWANCE = 1.25
#: How arms fail for what they may share with others of their workflow.
SHARED: set[FailureStatus] = {"unsupported", "build-failed", "not-engaged"}
#: What a user can do about an arm that is not built because it cannot lead.
ALL_ARMS = "ask again with p3-advisor recommend --all-arms"


def failure_of_sibling(state: RunState, planned: Arm) -> Failure | None:
    """Return the failure of another arm of the workflow that this one would have, too.

    Arms of the same precisions open the same models, and those with one artefact build the same.
    What runs nothing without options runs nothing with them. Where two arms failed alike, it is for
    what they share.
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
        opens_same_models = failure.phase == "open" and other.dtypes == planned.dtypes
        builds_same = bool(planned.artefact) and other.artefact == planned.artefact
        if (
            (opens_same_models and failure.status == "unsupported")
            or (builds_same if failure.status != "not-engaged" else not other.options)
            or alike[failure.status, failure.reason] > 1
        ):
            return failure
    return None


def payback_limit(state: RunState, arm: str, question: Question) -> BuildLimit | None:
    """Return the build seconds of `arm` that the requested number of requests cannot pay back.

    After these seconds a built arm would have served all requests, even if the calls of `arm` took
    no time. None for the controls, and if no number of requests is given or no arm is built.
    """
    built = [
        next(process for process in state.processes[other.id] if process.ready)
        for other in state.plan.arms
        if other.id != arm and state.is_valid(other.id)
    ]
    if question.requests is None or not built or arm in state.controls:
        return None
    seconds = max(
        min(_seconds_to_serve(question.requests, process, shape) for process in built)
        for shape in question.shapes
    )
    return BuildLimit(
        seconds,
        f"builds of more than {seconds:.3g} s cannot be paid back: by then another arm has served "
        "all requests, even if the calls of this one took no time",
        "ask for more with --requests, or leave it out to compare speeds alone",
        f"which {write_count(f'{question.requests:,}', 'request')} cannot repay",
    )


def _seconds_to_serve(requests: int, process: ProcessState, shape: Shape) -> float:
    call_seconds = ALLOWANCE * process.warmed_up[shape].typical_seconds
    return process.build_seconds + requests * call_seconds / shape.batch_size


def skips_losing_arms(question: Question) -> bool:
    """Return whether arms that cannot lead are left out: the user did not ask for them."""
    return question.budget.skips_losing_arms and not question.all_arms and not question.workflows


def arms_that_cannot_lead(answer: Answer, catalogue: Catalogue) -> dict[str, Failure]:
    """Return the arms without a measurement that cannot score more than the advised arm.

    Each has the reason. None where the budget builds all arms, where the user named workflows, and
    while the decision is OPEN.
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
    least = advised.score + advised.bonus + catalogue.rubric.decision.near
    found = {
        each.arm: potential_of(each, answer, catalogue)
        for each in answer.unmeasured
        if each.option is not None and each.status == "excluded"
    }
    return {
        arm: Failure("skipped", "build", _reason(each, advised), ALL_ARMS, skip_cause="cannot-lead")
        for arm, each in found.items()
        if each is not None and each.score <= least
    }


def _reason(found: Potential, advised: ScoredArm) -> str:
    most = (
        f"not built: {found.speedup:.2g}x and {found.score:.2f} points at most, where {advised.arm}"
        f" has {advised.score:.2f} at the weights of the run"
    )
    if found.gain is None:
        return most
    gain = f"at most {found.gain.largest:.2g}x as fast as {found.sibling}"
    return f"{most}; it was {gain} in {found.gain.runs} runs"
