"""What the events say about speed: visits by round, paired speed-ups, and the order of arms.

Two runs are compared by the speed-ups of the visits that other work disturbed least.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

from advisor.decide.intervals import trimmed_mean
from advisor.domain.measurement import UndisturbedSpeedup
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RunState
from probes.events import Visited
from probes.shape import Shape

#: Log speed-ups of an arm over the baseline by shape, process and round; the process of the race
#: is the first.
LogSpeedups = Mapping[Shape, Sequence[Sequence[float]]]


def log_median_seconds(visit: Visited) -> float:
    return math.log(statistics.median(visit.seconds))


def visits_by_round(
    state: RunState, shape: Shape, repeat: int = 0
) -> dict[int, dict[str, Visited]]:
    """Return the last visit of each arm in each round; `repeat` is 0 for the race."""
    rounds: dict[int, dict[str, Visited]] = {}
    for arm, processes in state.processes.items():
        for process in processes:
            for visit in process.visits if process.repeat == repeat else ():
                if visit.shape == shape:
                    rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def counted_visits(state: RunState, arm: str, shape: Shape) -> list[tuple[int, Visited]]:
    """Return the arm's visits that count, each with 0 or the number of its repetition."""
    return [
        (repeat, visits[arm])
        for repeat in (0, *sorted(state.repeats))
        for _, visits in sorted(visits_by_round(state, shape, repeat).items())
        if arm in visits
    ]


def mean_log_speedups(state: RunState, shape: Shape) -> dict[str, float]:
    rounds = visits_by_round(state, shape)
    series = {
        each.id: paired_log_speedups(rounds, state.plan.baseline.id, each.id)
        for each in state.plan.distinct
    }
    return {arm: trimmed_mean(each) for arm, each in series.items() if each and state.is_valid(arm)}


def race_log_speedups(
    rounds: Mapping[int, Mapping[str, Visited]], baseline: str, arm: str, best: str
) -> tuple[float, ...]:
    """Return the paired log speed-ups of an arm in a race that `best` leads.

    An arm that left the race early is compared with the best one over the rounds that both were in:
    its speed-ups are shifted so that their mean is that of the best arm over all rounds plus the
    mean difference of the two. Otherwise a drift of the baseline could put it ahead of the arm that
    it lost to.
    """
    own = paired_log_speedups(rounds, baseline, arm)
    if best in {baseline, arm}:
        return own
    over_best = paired_log_speedups(rounds, best, arm)
    whole = paired_log_speedups(rounds, baseline, best)
    if not own or not over_best or len(over_best) >= len(whole):
        return own
    shift = trimmed_mean(whole) + trimmed_mean(over_best) - trimmed_mean(own)
    return tuple(each + shift for each in own)


def paired_log_speedups(
    rounds: Mapping[int, Mapping[str, Visited]], baseline: str, arm: str
) -> tuple[float, ...]:
    """Return the log seconds of the baseline minus those of the arm, for each round with both."""
    return tuple(
        log_median_seconds(visits[baseline]) - log_median_seconds(visits[arm])
        for _, visits in sorted(rounds.items())
        if baseline in visits and arm in visits
    )


def arms_by_speed(races: Mapping[Shape, RaceResult], state: RunState, shape: Shape) -> list[str]:
    """Return the valid arms: the best one of the race first, eliminated ones last."""
    race = races.get(shape)
    if race is None:
        return []
    speedups = mean_log_speedups(state, shape)
    others = [arm for arm in speedups if arm != race.best]
    return [race.best, *sorted(others, key=lambda arm: (arm in race.eliminated, -speedups[arm]))]


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
