"""Classify the arms of a run, and say why a run without a baseline cannot go on."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.decide.rounds import is_valid, mean_log_speedups
from advisor.domain.plan import REFERENCE, Plan
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RunState, varying_sibling
from advisor.errors import (
    ModelCallError,
    ModelRefusedError,
    NothingViableError,
    NotWritableError,
    UserError,
)
from probes.wire.outcome import Failure
from probes.wire.shape import Shape


def failed_arms(state: RunState) -> set[str]:
    """Return the arms that have ended, or share an artefact that varies, without valid times."""
    return {
        arm
        for arm in state.processes
        if (any(process.outcome for process in state.processes[arm]) and not is_valid(state, arm))
        or varying_sibling(state, arm) is not None
    }


def raced_arms(state: RunState) -> set[str]:
    """Return the arms that entered a race at any batch size."""
    return {arm for groups in state.groups.values() for group in groups for arm in group.arms}


def controls(state: RunState) -> set[str]:
    """Return the baseline and its duplicate, which every race group contains.

    Speedups refer to the baseline; the duplicate gives the noise floor.
    """
    plan = plan_of(state)
    return {plan.baseline.id, *(arm.id for arm in plan.arms if arm.duplicate_of)}


def arms_by_speed(races: Mapping[Shape, RaceResult], state: RunState, shape: Shape) -> list[str]:
    """Return the arms with valid measurements at a batch size, fastest first.

    The best arm and the arms tied or unresolved with it come before the eliminated arms.
    """
    race = races.get(shape)
    if race is None:
        return []
    speedups = mean_log_speedups(state, shape)
    ahead = [race.best, *(arm for arm in (*race.tied, *race.unresolved) if arm != race.best)]
    return [
        *ahead,
        *sorted((arm for arm in speedups if arm not in ahead), key=lambda arm: -speedups[arm]),
    ]


def arms_built_before(state: RunState) -> set[str]:
    """Return the arms whose caches hold a finished build."""
    return {
        arm
        for arm, processes in state.processes.items()
        if any(process.ready for process in processes)
    }


def next_process_number(state: RunState, arm: str) -> int:
    """Return the number of the next process of the arm; the first one has 0."""
    return len(state.processes.get(arm, ()))


def plan_of(state: RunState) -> Plan:
    """Return the plan, which is the first event of every stored run."""
    if state.plan is None:
        message = "the run has no plan"
        raise ValueError(message)
    return state.plan


def find_failure(state: RunState) -> UserError | None:
    """Return the error of a reference or a baseline that failed before the races, if one did."""
    failures = [process.failure for process in state.processes.get(REFERENCE, ())][-1:]
    if not has_reference(state) and any(each and each.status != "skipped" for each in failures):
        return baseline_error(state, REFERENCE)
    baseline = plan_of(state).baseline.id
    return baseline_error(state, baseline) if baseline in failed_arms(state) else None


def can_go_on(state: RunState) -> bool:
    """Return whether neither the reference nor the baseline of a run failed for its model.

    A run whose disk was full goes on when there is space.
    """
    failure = find_failure(state)
    return failure is None or isinstance(failure, NotWritableError)


def has_reference(state: RunState) -> bool:
    """Return whether the inputs and the reference outputs are stored."""
    return any(process.completed for process in state.processes.get(REFERENCE, ()))


def baseline_error(state: RunState, arm: str) -> UserError:
    """Return the error for a reference or baseline worker that failed before the races."""
    name = f"the {arm}" if arm == REFERENCE else arm
    match state.processes[arm][-1].failure:
        case None:
            return _not_viable(name, "its worker ended", None)
        case Failure("model-failed", reason=reason, fix=fix):
            return ModelCallError(reason, fix or "call the model by itself in the same interpreter")
        case Failure("model-refused", reason=reason, missing_module=str(module)):
            return ModelRefusedError(
                reason,
                f"pip install {module} into the interpreter of --python, or the package that"
                " provides this module under another name",
            )
        case Failure("model-refused", reason=reason, fix=fix):
            return ModelRefusedError(
                reason, fix or "open the model by itself in the same interpreter"
            )
        case Failure("disk-full", reason=reason, fix=fix):
            return NotWritableError(
                f"{name} failed: {reason}", f"{fix or 'free disk space'}; then resume the run"
            )
        case Failure("incorrect", "correctness", reason=reason):
            return NothingViableError(
                f"{name} differs from the reference of another process: {reason}",
                "create the same model in each process: seed what it draws, such as"
                " numpy.random.default_rng(0), or keep it in parameters and buffers",
            )
        case failure:
            return _not_viable(name, failure.reason, failure.fix)


def _not_viable(name: str, reason: str, fix: str | None) -> NothingViableError:
    return NothingViableError(
        f"{name} failed: {reason}", fix or "choose another precision, shape or device"
    )
