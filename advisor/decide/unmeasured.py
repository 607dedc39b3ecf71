"""What has no measurement: its reason, and the next step that would measure it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec
from packaging.specifiers import SpecifierSet

from advisor.decide.certainty import Contest
from advisor.decide.scoring import crossed_bounds, value_of
from advisor.domain import errors
from advisor.domain.answer import Answer, Status, UnmeasuredArm, is_out_of_time
from advisor.domain.arm_figures import START
from advisor.domain.constraints import Constraint
from advisor.domain.machine import Gpu
from advisor.domain.measurement import Measurement
from advisor.domain.plan import Arm, ArmName
from advisor.domain.question import Question
from advisor.domain.recommendation import ConstraintEffect
from advisor.domain.results import Results, ScoredArm
from advisor.domain.run_state import Header, RunState
from advisor.domain.serving import ServedArm
from advisor.domain.text import format_share, name_some, write_duration
from advisor.domain.workflow import KnownFault, Workflow
from probes.outcome import Failure, SkipCause

#: Why a run skipped arms that it could have measured.
SKIPPED_BY_THE_RUN: set[SkipCause | None] = {"out-of-time", "cannot-lead"}
#: Arms that a sentence names; further ones are counted.
MOST_NAMED = 3
#: A budget that is named has at least this many times the seconds of the one that did not suffice.
LEAST_MORE = 1.5
ANOTHER_NAME = "or the package that provides this module under another name"


def list_unmeasured(
    header: Header, state: RunState, results: Results, early_end: errors.UserError | None
) -> tuple[UnmeasuredArm, ...]:
    """Return the planned arms without a measurement, then the excluded workflows.

    `early_end` is why the run measured no arm; None if it did or the reason is not known.
    """
    measured = {measurement.arm for measurement in results.measurements}
    workflows = header.catalogue.by_id
    of_plan = (
        _planned(each, workflows[each.workflow], header, state, results, early_end)
        for each in state.plan.distinct
        if each.id not in measured
    )
    excluded = (
        UnmeasuredArm.of(each, workflows[each.workflow].title_of(str(each.name)))
        for each in state.plan.excluded
    )
    return (*of_plan, *excluded)


def _planned(
    planned: Arm,
    workflow: Workflow,
    header: Header,
    state: RunState,
    results: Results,
    early_end: errors.UserError | None,
) -> UnmeasuredArm:
    """Return an arm that failed, is too slow to serve, or was not reached."""
    processes = state.processes.get(planned.id, ())
    is_begun = any(process.visits for process in processes)
    ended = f"the run {'ended' if state.finished else 'stopped'} before this arm was "
    missing = UnmeasuredArm(
        arm=planned.id,
        workflow=planned.workflow,
        title=workflow.title_of(planned.id),
        option=planned.option,
        status="not-reached",
        reason=ended + ("timed at every shape" if is_begun else "measured"),
        fix=_measuring_step(header, state, early_end),
    )
    failures = [process.failure for process in processes if process.failure]
    if failures:
        failure = failures[-1]
        is_of_model = failure.status in {"model-refused", "model-failed"}
        status: Status = "build-failed" if is_of_model else failure.status
        return msgspec.structs.replace(
            missing,
            status=status,
            reason=failure.reason,
            fix=_step_of_failure(failure, header, state)
            or _install_step(header, workflow, failure)
            or _step_of_break(header, failure)
            or _step_of_known_fault(header, workflow, status),
            skip_cause=failure.skip_cause,
            checks=tuple(checked for _, checked in sorted(processes[-1].checked.items())),
        )
    sibling = state.varying_sibling(planned.id)
    if sibling is not None:
        return msgspec.structs.replace(
            missing,
            status="nondeterministic",
            reason=f"it runs the same artefact as {sibling}, whose outputs vary",
            fix=_step_of_known_fault(header, workflow, "nondeterministic"),
        )
    served = results.serving.arms if results.serving else ()
    own = next((each for each in served if each.arm == planned.id), None)
    return missing if own is None else _too_slow(missing, own)


def _step_of_failure(failure: Failure, header: Header, state: RunState) -> str | None:
    """Return how an arm is measured that was left out to save time, else its own next step."""
    if failure.skip_cause == "cannot-lead":
        return header.question.ask_again(all_arms=True)
    return more_time(state, header.question) if is_out_of_time(failure) else failure.fix


def more_time(state: RunState, question: Question) -> str:
    """Return the next step for arms that a run did not reach: a budget that is expected to suffice.

    It is the time of the run so far and the expected builds of these arms; one that is not known
    counts as the median of those that are. Servers take as long as those that were measured.
    """
    arms, left = state.plan.distinct, []
    for planned in arms:
        processes = state.processes.get(planned.id, ())
        failures = [each.failure for each in processes if each.failure]
        if not any(each.ready for each in processes) and all(map(is_out_of_time, failures)):
            left.append(planned.expected_build_seconds)
    expected = [each.expected_build_seconds for each in arms]
    known = [each for each in expected if each is not None] or [0.0]
    builds = sum(statistics.median(known) if each is None else each for each in left)
    seconds = (state.at + builds) / question.budget.race_share
    if question.serves:
        seconds = state.at * len(arms) / max(len(arms) - len(left), 1)
    if math.isfinite(question.seconds):
        seconds = max(seconds, LEAST_MORE * question.seconds)
    return question.ask_again(budget=write_duration(seconds))


def _measuring_step(
    header: Header, state: RunState, early_end: errors.UserError | None
) -> str | None:
    """Return how the arms that the run did not come to are measured; None on another machine."""
    if header.foreign:
        return None
    if state.finished:
        return more_time(state, header.question)
    if early_end is None or state.can_go_on:
        return f"p3-advisor resume {header.run_id}"
    return early_end.next_step


def _too_slow(missing: UnmeasuredArm, served: ServedArm) -> UnmeasuredArm:
    slowest = min(served.levels, key=lambda level: level.rate, default=None)
    met = (
        f"; at {slowest.rate:.3g} requests/s {format_share(slowest.met)} of them do"
        if slowest
        else ""
    )
    return msgspec.structs.replace(
        missing,
        status="excluded",
        reason=f"too few requests meet the limits at every rate that was tried{met}",
        fix="allow more with --ttft and --itl, or choose shorter requests with --lengths",
    )


def _install_step(header: Header, workflow: Workflow, failure: Failure) -> str | None:
    if failure.missing_module is None:
        return None
    module, chosen = failure.missing_module, workflow.for_question(header.question)
    if chosen.environment.kind == "own":
        name = chosen.environment_name
        return f"p3-advisor env create {name} --with {module}, {ANOTHER_NAME}"
    return f"install {module} where the workflow runs, {ANOTHER_NAME}"


def _step_of_break(header: Header, failure: Failure) -> str | None:
    """Return the change of the model that lets Dynamo capture what it skipped as a whole."""
    cause = header.catalogue.improvements.find_cause(failure.reason)
    if cause is None or failure.status != "not-engaged":
        return None
    lines = "; ".join(cause.lines.splitlines())
    added = f"add {lines} to the file that creates the model" if lines else ""
    return "; ".join(filter(None, (added, cause.advice)))


def _step_of_known_fault(header: Header, workflow: Workflow, status: Status) -> str | None:
    question = header.question
    gpu = header.machine.find_gpu(question.gpu)
    for fault in workflow.faults:
        affects_dtype = not fault.dtypes or question.dtype in fault.dtypes
        if status in fault.statuses and affects_dtype and _affects_gpu(fault, gpu):
            return f"{fault.next_step}: {fault.description} ({fault.source})"
    return None


def _affects_gpu(fault: KnownFault, gpu: Gpu | None) -> bool:
    capabilities = fault.compute_capabilities
    return not capabilities or (
        gpu is not None
        and any(SpecifierSet(each).contains(gpu.compute_capability) for each in capabilities)
    )


def nothing_viable(
    contest: Contest, late: Sequence[UnmeasuredArm], effects: Sequence[ConstraintEffect]
) -> errors.UserError:
    """Return why no arm is advised; one of `late` may meet the constraints.

    `effects` says which arm would be advised without each of them.
    """
    scored, measured = contest.scores, contest.results.by_arm
    question, constraints = contest.question, contest.question.constraints
    if not scored:
        return errors.NothingViableError(
            "nothing was measured, so there is nothing to recommend",
            "run p3-advisor show --json for the reason of each workflow",
        )
    asked = ", ".join(constraint.text for constraint in constraints)
    is_limited = any(each.quantity == START for each in constraints)
    if is_limited and not any(each.fastest_start for each in measured.values()):
        return errors.ConstraintUndecidedError(
            f"no start was measured, so nothing shows whether a workflow meets --require {asked}",
            f"to measure how the leaders start: {question.ask_again(cold_start=True)}",
        )
    spreads = [spread for each in scored for spread in crossed_bounds(each, measured[each.arm])]
    nearest = ", ".join(_nearest(constraint, scored, measured) for constraint in constraints)
    may_meet = spreads[:MOST_NAMED] or [f"no measured arm is known to, nearest: {nearest}"]
    if late:
        may_meet.append(f"not measured: {name_late(late)}")
    if spreads or late:
        again = question.ask_again(budget="thorough")
        longer = f"measure longer, on a machine that does nothing else: {again}"
        return errors.ConstraintUndecidedError(
            f"the figures do not show whether a workflow meets --require {asked}: "
            f"{'; '.join(may_meet)}",
            next((each.fix for each in late if each.fix), longer),
        )
    ways = [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.without
    ]
    return errors.NothingViableError(
        f"no workflow meets --require {asked}; nearest: {nearest}",
        "; ".join(["relax or remove a constraint of --require", *ways]),
    )


def nothing_compared(only: ScoredArm, cut_off: Sequence[UnmeasuredArm]) -> errors.BudgetSpentError:
    return errors.BudgetSpentError(
        f"only {only.title} was measured in time; not measured: {name_late(cut_off)}",
        next(filter(None, (each.fix for each in cut_off)), "ask again with a longer --budget"),
    )


def name_late(late: Sequence[UnmeasuredArm]) -> str:
    return name_some([each.title for each in late], MOST_NAMED)


def _nearest(
    constraint: Constraint, scored: Sequence[ScoredArm], measured: Mapping[str, Measurement]
) -> str:
    """Return the value that is nearest to a constraint with its arm, or how many arms meet it."""
    found = {one.arm: value_of(constraint, one.ratings, measured[one.arm]) for one in scored}
    known = {arm: value for arm, value in found.items() if value is not None}
    if not known:
        return f"{constraint.quantity} unknown"
    if met := sum(map(constraint.admits, known.values())):
        return f"{constraint.quantity} met by {met} of {len(scored)}"
    arm = min(known, key=lambda name: abs(known[name] - constraint.limit))
    return f"{constraint.quantity} {constraint.write_measured(known[arm])} ({arm})"


def arms_to_retry(answer: Answer) -> tuple[str, ...]:
    """Return the arms that failed, as values of the option `--workflows`.

    The same number of requests would exclude an arm again whose build it cannot repay.
    """
    return tuple(
        str(ArmName(one.workflow, one.option))
        for one in answer.unmeasured
        if one.option is not None and one.status not in {"excluded", "not-reached"}
        if one.skip_cause != "build-limit"
    )


def has_skipped_arms(answer: Answer) -> bool:
    """Return whether the run skipped arms that it could have measured."""
    return any(each.skip_cause in SKIPPED_BY_THE_RUN for each in answer.unmeasured)
