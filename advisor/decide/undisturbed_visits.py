"""The speed-up between the visits that other work disturbed least, over many processes. Pure."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from advisor.decide.rounds import log_median_seconds, visits_by_round
from advisor.domain.measurement import UndisturbedSpeedup
from advisor.domain.run_state import RunState
from probes.wire.shape import Shape

#: Share of the times that lie below the level.
FASTEST_SHARE = 0.05
#: Resamples of the processes, drawn from a fixed seed: the same times have the same error.
RESAMPLES = 400


class LevelDifference(NamedTuple):
    """The difference between the levels of two series of logarithms, and its standard error."""

    value: float
    standard_error: float


def undisturbed_level(processes: Sequence[Sequence[float]]) -> float:
    """Return the `FASTEST_SHARE` quantile of all times, which does not depend on a single one."""
    ordered = sorted(time for each in processes for time in each)
    position = FASTEST_SHARE * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def level_difference(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> LevelDifference:
    """Return the level of `first` minus that of `second`.

    Each has a series of logarithms for each process; processes with the same index ran at the same
    time, at least two. The standard error is that of resampled indices, which is too small by the
    square root of (n - 1) / n and is corrected for that.
    """
    count, drawn = len(first), random.Random(0)  # noqa: S311 - no secret
    differences = []
    for _ in range(RESAMPLES):
        indices = drawn.choices(range(count), k=count)
        differences.append(
            undisturbed_level([first[index] for index in indices])
            - undisturbed_level([second[index] for index in indices])
        )
    return LevelDifference(
        undisturbed_level(first) - undisturbed_level(second),
        statistics.stdev(differences) * math.sqrt(count / (count - 1)),
    )


#: Of fewer processes too few may be undisturbed, and resampling shows too small an error: in
#: simulations, twice as many intervals of three to five processes miss the truth as should.
FEWEST_PROCESSES = 6


def summarise_undisturbed(
    state: RunState, baseline: str, arm: str, shape: Shape
) -> UndisturbedSpeedup | None:
    """Return the speed-up between the fastest visits of the baseline and of `arm`.

    None with fewer than `FEWEST_PROCESSES` processes of both, which do not show its error.
    """
    paired = [
        logs
        for repeat in (0, *sorted(state.repeats))
        if (logs := _paired_logs(state, baseline, arm, shape, repeat))[0]
    ]
    if len(paired) < FEWEST_PROCESSES:
        return None
    difference = level_difference([ours for ours, _ in paired], [theirs for _, theirs in paired])
    return UndisturbedSpeedup(
        value=math.exp(difference.value),
        log_error=difference.standard_error,
        processes=len(paired),
    )


def _paired_logs(
    state: RunState, baseline: str, arm: str, shape: Shape, repeat: int
) -> tuple[list[float], list[float]]:
    """Return the logarithms of the seconds of both arms in the rounds that have both."""
    rounds = [
        visits
        for visits in visits_by_round(state, shape, repeat).values()
        if baseline in visits and arm in visits
    ]
    first, second = (
        [log_median_seconds(visits[each]) for visits in rounds] for each in (baseline, arm)
    )
    return first, second
