"""Why the reference or the baseline of a run failed: without them no arm can be compared."""

from __future__ import annotations

from advisor.decide.arm_states import failed_arms, plan_of
from advisor.domain.plan import REFERENCE
from advisor.domain.run_state import RunState
from advisor.errors import (
    ModelCallError,
    ModelRefusedError,
    NothingViableError,
    NotWritableError,
    UserError,
)
from probes.wire.outcome import Failure


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
