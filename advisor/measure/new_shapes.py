"""Rate what an arm does with batch sizes that it was not built for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.measurement import Interval
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import NewShapeResult

#: Lower bound of the speed-up from which a silent fallback to eager code shows.
CLEAR_SPEEDUP = 1.2
#: An arm that takes at least this share of the baseline's seconds for a new shape fell back.
FALLBACK_SHARE = 0.95


def rate_new_shapes(results: Sequence[NewShapeResult]) -> str | None:
    """Return `served`, `recompiles` or `refused` by the worst result; None without results."""
    outcomes = {result.outcome for result in results}
    if not outcomes:
        return None
    if outcomes & {"refused", "wrong"}:
        return "refused"
    return "recompiles" if outcomes & {"stalled", "eager"} else "served"


def mark_silent_fallbacks(
    state: RunState, results: Mapping[int, NewShapeResult], speedup: Interval
) -> tuple[NewShapeResult, ...]:
    """Return the results by batch size; a shape served without the arm's speed-up is `eager`."""
    baseline = _baseline_results(state)
    gains = speedup.low is not None and speedup.low >= CLEAR_SPEEDUP
    return tuple(
        _mark(result, baseline.get(size)) if gains else result
        for size, result in sorted(results.items())
    )


def _baseline_results(state: RunState) -> Mapping[int, NewShapeResult]:
    if state.plan is None:
        return {}
    processes = state.processes[state.plan.baseline.id]
    tried = [process.new_shape_results for process in processes if process.new_shape_results]
    return tried[-1] if tried else {}


def _mark(result: NewShapeResult, baseline: NewShapeResult | None) -> NewShapeResult:
    seconds, eager_seconds = result.steady_seconds, baseline.steady_seconds if baseline else None
    if result.outcome != "served" or not seconds or not eager_seconds:
        return result
    if seconds < FALLBACK_SHARE * eager_seconds:
        return result
    reason = f"it takes {seconds / eager_seconds:.2f} times as long as the baseline at this size"
    return msgspec.structs.replace(result, outcome="eager", reason=reason)
