"""The measured peaks of the device, without those that the arms disprove. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.question import Dtype
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Peaks
from advisor.measure.drift import typical_seconds
from advisor.measure.rounds import counted_visits, is_valid
from advisor.measure.workload import flops_per_call

#: Share of the arithmetic peak above which the peak was measured too low: the device was disturbed,
#: or the arms need fewer operations than are counted, as Winograd's convolutions do.
MOST_OF_PEAK = 1.25


def device_peaks(state: RunState, dtype: Dtype) -> Peaks | None:
    """Return the measured peaks of the device, if there are any.

    The arithmetic peak of `dtype` is missing if an exact native arm exceeds it by far. An arm that
    is less exact may compute in a lower precision, so it disproves nothing.
    """
    measured = [each.peaks for each in state.processes.get(REFERENCE, ()) if each.peaks]
    if not measured:
        return None
    peaks = measured[-1]
    peak = peaks.operations_per_second.get(dtype)
    if peak is None or max(_exact_rates(state), default=0.0) <= MOST_OF_PEAK * peak:
        return peaks
    others = {each: rate for each, rate in peaks.operations_per_second.items() if each != dtype}
    return msgspec.structs.replace(peaks, operations_per_second=others)


def _exact_rates(state: RunState) -> Iterator[float]:
    """Yield the operations a second of the exact native arms, by arm and batch size."""
    for arm in state.plan.arms if state.plan else ():
        if not is_valid(state, arm.id):
            continue
        for size in _exact_sizes(state, arm):
            visits = [visit for _, visit in counted_visits(state, arm.id, size)]
            flops = flops_per_call(state, size)
            if visits and flops:
                yield flops / typical_seconds(visits)


def _exact_sizes(state: RunState, arm: Arm) -> list[int]:
    """Return the batch sizes at which the outputs of a native arm are exact."""
    if arm.weights is not None:
        return []
    return [
        size
        for process in state.processes[arm.id]
        for size, checked in process.checked.items()
        if checked.accuracy_class == "exact"
    ]
