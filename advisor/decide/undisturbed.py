"""Speed-ups of the visits that other work disturbed least, which two runs are compared by."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from advisor.decide.rounds import log_median_seconds, visits_by_round
from advisor.domain.measurement import UndisturbedSpeedup
from advisor.domain.run_state import RunState
from probes.shape import Shape

#: Share of the times that lie below the level.
FASTEST_SHARE = 0.05
#: Resamples of processes or visits, drawn from a fixed seed: the same times have the same error.
RESAMPLES = 400


def undisturbed_level(processes: Sequence[Sequence[float]]) -> float:
    """Return the `FASTEST_SHARE` quantile of all times, which does not depend on a single one."""
    ordered = sorted(time for each in processes for time in each)
    position = FASTEST_SHARE * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


#: Fewest processes for this estimate. Among fewer, too few may be undisturbed, and resampling shows
#: too small an error: in simulations twice as many intervals miss the truth as should.
FEWEST_PROCESSES = 6


def compare_undisturbed(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> UndisturbedSpeedup:
    """Return the speed-up between the levels of the baseline's times and those of an arm.

    Each has a series of logarithms for each process; processes with the same index ran at the same
    time, at least two. The standard error is that of resampled indices, which is too small by the
    square root of (n - 1) / n and is corrected for that.
    """
    count, drawn = len(ours), random.Random(0)  # noqa: S311 - no secret
    differences = []
    for _ in range(RESAMPLES):
        indices = drawn.choices(range(count), k=count)
        differences.append(
            undisturbed_level([ours[index] for index in indices])
            - undisturbed_level([theirs[index] for index in indices])
        )
    return UndisturbedSpeedup(
        value=math.exp(undisturbed_level(ours) - undisturbed_level(theirs)),
        log_error=statistics.stdev(differences) * math.sqrt(count / (count - 1)),
        processes=count,
    )


def summarise_undisturbed(
    state: RunState, baseline: str, arm: str, shape: Shape
) -> UndisturbedSpeedup | None:
    """Compare the arm with the baseline; None with fewer than `FEWEST_PROCESSES` of both."""
    ours, theirs = [], []
    for repeat in (0, *sorted(state.repeats)):
        rounds = visits_by_round(state, shape, repeat).values()
        shared = [visits for visits in rounds if baseline in visits and arm in visits]
        if shared:
            ours.append([log_median_seconds(visits[baseline]) for visits in shared])
            theirs.append([log_median_seconds(visits[arm]) for visits in shared])
    return compare_undisturbed(ours, theirs) if len(ours) >= FEWEST_PROCESSES else None
