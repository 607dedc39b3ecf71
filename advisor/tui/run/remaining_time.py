"""Estimate how much longer a run takes."""

from __future__ import annotations

from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState, RunState
from advisor.pipeline.builds.build_limits import build_seconds

#: Expected seconds of builds, from which on their real times correct the estimate of the others:
#: shorter builds take their time from imports, not from the model.
LEAST_EXPECTED_SECONDS = 3.0


def remaining_seconds(state: RunState, question: Question, now: float) -> float | None:
    """Estimate the seconds until the run ends; None if nothing is known about its builds.

    Builds are expected to take as long as in earlier runs, times the factor by which those of this
    run took longer or shorter, one after the other. The race takes at most the measuring time.
    """
    factor, left, known = _build_time_factor(state), 0.0, False
    for arm in state.plan.arms if state.plan else ():
        process = _last_process(state, arm.id)
        if process is not None and (process.ready or process.outcome is not None):
            known = True
        elif arm.expected_build_seconds is not None:
            known = True
            since = process.building_since if process is not None else None
            spent = now - since if since is not None else 0.0
            left += max(factor * arm.expected_build_seconds - spent, 0.0)
    if not known:
        return None
    open_sizes = len(question.batch_sizes) - len(state.closed)
    share = open_sizes / max(len(question.batch_sizes), 1)
    return left + question.budget.measuring_seconds * share


def _build_time_factor(state: RunState) -> float:
    """Return the seconds of the finished builds over those expected of them; 1 without any."""
    taken = expected = 0.0
    for arm in state.plan.arms if state.plan else ():
        process = _last_process(state, arm.id)
        usual = arm.expected_build_seconds or 0.0
        if process is not None and process.ready and usual >= LEAST_EXPECTED_SECONDS:
            taken += build_seconds(process)
            expected += usual
    return taken / expected if expected else 1.0


def _last_process(state: RunState, arm: str) -> ProcessState | None:
    """Return the last process of an arm; None if there is none, or if the run stopped meanwhile."""
    process = (state.processes.get(arm) or (None,))[-1]
    return None if process is None or process.is_lost else process
