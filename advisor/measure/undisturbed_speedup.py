"""Summarise the speed-up of an arm at the times at which other work did not disturb it."""

from __future__ import annotations

import math

from advisor.domain.measurement import UndisturbedSpeedup
from advisor.domain.run_state import RunState
from advisor.measure.rounds import log_median_seconds, visits_by_round
from advisor.statistics.undisturbed import level_difference

#: Of fewer processes too few may be undisturbed, and resampling shows too small an error: in
#: simulations, twice as many intervals of three to five processes miss the truth as should.
FEWEST_PROCESSES = 6


def summarise_undisturbed(
    state: RunState, baseline: str, arm: str, batch_size: int
) -> UndisturbedSpeedup | None:
    """Return the speed-up between the fastest visits of the baseline and of `arm`.

    None with fewer than `FEWEST_PROCESSES` processes of both, which do not show its error.
    """
    paired = [
        logs
        for repeat in (0, *sorted(state.repeats))
        if (logs := _paired_logs(state, baseline, arm, batch_size, repeat))
    ]
    if len(paired) < FEWEST_PROCESSES:
        return None
    difference = level_difference(
        [[first for first, _ in logs] for logs in paired],
        [[second for _, second in logs] for logs in paired],
    )
    return UndisturbedSpeedup(
        value=math.exp(difference.value),
        log_error=difference.standard_error,
        processes=len(paired),
    )


def _paired_logs(
    state: RunState, baseline: str, arm: str, batch_size: int, repeat: int
) -> list[tuple[float, float]]:
    """Return the logarithms of the seconds of both arms in each round that has both."""
    return [
        (log_median_seconds(visits[baseline]), log_median_seconds(visits[arm]))
        for visits in visits_by_round(state, batch_size, repeat).values()
        if baseline in visits and arm in visits
    ]
