"""Summarise the speed-up of an arm at the times at which other work did not disturb it."""

from __future__ import annotations

import math

from advisor.domain.measurement import UndisturbedSpeedup
from advisor.domain.run_state import RunState
from advisor.measure.rounds import counted_visits, log_median_seconds
from advisor.statistics.replication import MIN_PROCESSES
from advisor.statistics.undisturbed import level_difference


def summarise_undisturbed(
    state: RunState, baseline: str, arm: str, batch_size: int
) -> UndisturbedSpeedup | None:
    """Return the speed-up between the fastest visits of the baseline and of `arm`.

    None with fewer than `MIN_PROCESSES` processes of both, which do not show its error.
    """
    of_baseline, own = (_logs_by_process(state, each, batch_size) for each in (baseline, arm))
    shared = sorted(of_baseline.keys() & own.keys())
    if len(shared) < MIN_PROCESSES:
        return None
    difference = level_difference(
        [of_baseline[number] for number in shared], [own[number] for number in shared]
    )
    return UndisturbedSpeedup(
        value=math.exp(difference.value),
        log_error=difference.standard_error,
        processes=len(shared),
    )


def _logs_by_process(state: RunState, arm: str, batch_size: int) -> dict[int, list[float]]:
    """Return the logarithms of the seconds of the visits, by the number of the repetition."""
    logs: dict[int, list[float]] = {}
    for repeat, visit in counted_visits(state, arm, batch_size):
        logs.setdefault(repeat, []).append(log_median_seconds(visit))
    return logs
