"""Compare the arms that were called without a pause with their results in the race."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from advisor.domain.results import SustainedCheck
from advisor.domain.run_state import ProcessState, RunState
from advisor.statistics.intervals import trimmed_mean
from probes.wire.shape import Shape


def check_sustained(
    state: RunState,
    log_speedups: Mapping[str, Mapping[Shape, Sequence[float]]],
    margins: Mapping[Shape, float],
) -> SustainedCheck | None:
    """Compare two arms called without a pause with their result in the race; None without both.

    The log speed-ups are by arm and batch size, the margins, as shares, by batch size.
    """
    processes = {
        arm: process
        for arm, each in state.processes.items()
        for process in each
        if process.sustained
    }
    if len(processes) != 2:  # noqa: PLR2004 - a pair
        return None
    first, second = processes
    shape = processes[first].sustained[0].shape
    raced = [log_speedups.get(arm, {}).get(shape) for arm in (first, second)]
    if not (raced[0] and raced[1]):
        return None
    burst = trimmed_mean(raced[0]) - trimmed_mean(raced[1])
    sustained = math.log(
        _sustained_seconds(processes[second]) / _sustained_seconds(processes[first])
    )
    return SustainedCheck(
        shape=shape,
        arms=(first, second),
        burst_ratio=math.exp(burst),
        sustained_ratio=math.exp(sustained),
        agrees=abs(burst - sustained) <= math.log1p(margins[shape]),
        joules_per_call={arm: _joules_per_call(process) for arm, process in processes.items()},
    )


def _sustained_seconds(process: ProcessState) -> float:
    return statistics.fmean(each.seconds / each.calls for each in process.sustained)


def _joules_per_call(process: ProcessState) -> float | None:
    joules = [each.joules for each in process.energy]
    known = [each for each in joules if each is not None]
    if not joules or len(known) < len(joules):
        return None
    return sum(known) / sum(each.calls for each in process.sustained)
