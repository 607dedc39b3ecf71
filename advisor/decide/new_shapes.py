"""Rate what an arm does with batch sizes and lengths that it was not built for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from advisor.domain.measurement import Interval
from advisor.domain.plan import BASELINE, Arm
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.events import NewShapeResult
from probes.wire.shape import Shape

#: Lower bound of the speed-up from which a silent fallback to eager code shows.
CLEAR_SPEEDUP = 1.2
#: A first call that takes so many seconds longer than that of eager PyTorch, which only loads
#: kernels, has built something.
BUILD_SECONDS = 0.25
#: An arm that takes at least this share of the baseline's seconds for a new shape has no speed-up.
FALLBACK_SHARE = 0.95


def rate_new_shapes(results: Sequence[NewShapeResult]) -> str | None:
    """Return `served`, `recompiles` or `refused` by the worst result; None if nothing was tried."""
    outcomes = {result.outcome for result in results} - {"skipped"}
    if not outcomes:
        return None
    if outcomes & {"refused", "wrong"}:
        return "refused"
    return "recompiles" if outcomes & {"stalled", "eager"} else "served"


def results_of(process: ProcessState) -> Mapping[Shape, NewShapeResult]:
    """Return the results of a process by shape, with the one at which it ended.

    A shape that took too long is `skipped`: the process was killed, completed but for its result,
    so it is not known what it did. Any other end is a refusal.
    """
    results, shape = process.new_shape_results, getattr(process.new_shape_started, "shape", None)
    if shape is None or shape in results or process.outcome is None:
        return results
    failure = process.failure
    is_skipped = failure is None or failure.status in {"timed-out", "skipped"}
    ended = NewShapeResult(
        shape=shape,
        outcome="skipped" if is_skipped else "refused",
        first_call_seconds=None,
        steady_seconds=None,
        reason=failure.reason if failure else "it took longer than the time limit",
    )
    return {**results, shape: ended}


def is_complete(results: Sequence[NewShapeResult]) -> bool:
    """Return whether every new shape was tried."""
    return all(result.outcome != "skipped" for result in results)


def compare_with_baseline(
    state: RunState, arm: Arm, results: Mapping[Shape, NewShapeResult], speedup: Interval
) -> tuple[NewShapeResult, ...]:
    """Return the results in order; a shape served without the arm's speed-up has a reason.

    Its outcome is `eager` if the workflow may have run eager code. A slow first call is no build
    if that of eager PyTorch is as slow.
    """
    tried = [*filter(None, map(results_of, state.processes[state.plan.baseline.id]))]
    baseline = tried[-1] if tried else {}
    is_eager = state.plan.baseline.id == BASELINE
    gains = speedup.low is not None and speedup.low >= CLEAR_SPEEDUP
    compared = []
    for shape, each in sorted(results.items()):
        other = baseline.get(shape)
        result = _without_loading(each, other) if is_eager and other else each
        compared.append(_mark(arm, result, other) if gains else result)
    return tuple(compared)


def _without_loading(result: NewShapeResult, eager: NewShapeResult) -> NewShapeResult:
    longer = (result.first_call_seconds or 0.0) - (eager.first_call_seconds or 0.0)
    if result.outcome != "stalled" or longer > BUILD_SECONDS:
        return result
    return dataclasses.replace(result, outcome="served")


def _mark(arm: Arm, result: NewShapeResult, baseline: NewShapeResult | None) -> NewShapeResult:
    seconds, eager_seconds = result.steady_seconds, baseline.steady_seconds if baseline else None
    if result.outcome != "served" or not seconds or not eager_seconds:
        return result
    if seconds < FALLBACK_SHARE * eager_seconds:
        return result
    reason = f"{seconds / eager_seconds:.2f} times as long as the baseline at this shape"
    return dataclasses.replace(
        result, outcome="eager" if arm.eager_fallback else "served", reason=reason
    )
