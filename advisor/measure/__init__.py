"""Stage: what workers said -> `Results`.

Pure; the races come in already run, so that no stage knows another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.measurement import RaceResult, Results, SustainedCheck
from advisor.domain.plan import REFERENCE
from advisor.domain.question import Dtype
from advisor.domain.run_state import RunState
from advisor.domain.worker_events import Peaks
from advisor.measure.arms import CONFIDENCE, Series, count_visits, interval_of, summarise_arm
from advisor.measure.rounds import (
    block_value,
    is_valid,
    mean_log_speedups,
    measured_process,
    paired,
    rounds_of,
)
from advisor.statistics.intervals import paired_interval

__all__ = [
    "block_value",
    "interval_of",
    "is_valid",
    "mean_log_speedups",
    "measured_process",
    "rounds_of",
    "summarise",
]


def summarise(
    state: RunState, races: Mapping[int, RaceResult], *, dtype: Dtype, margin: float
) -> Results:
    """Return the measurements of every arm that counts, made in `dtype`; shares below `margin` mean nothing."""
    if state.plan is None:
        message = "a run without a plan has no results"
        raise ValueError(message)
    baseline, duplicate = (
        state.plan.baseline,
        next((arm for arm in state.plan.arms if arm.duplicate_of), None),
    )
    series = {
        arm.id: _series(state, races, baseline.id, arm.id)
        for arm in state.plan.arms
        if is_valid(state, arm.id)
    }
    differences = {
        arm: {size: tuple(each[0]) for size, each in sizes.items()} for arm, sizes in series.items()
    }
    floors = {
        size: _noise_floor(differences.get(duplicate.id, {}).get(size, ()) if duplicate else ())
        for size in races
    }
    known = [floor for floor in floors.values() if floor is not None]
    peaks = peaks_of(state)
    return Results(
        baseline=baseline.id,
        measurements=tuple(
            summarise_arm(state, arm, series[arm.id], peaks, dtype=dtype, margin=margin)
            for arm in state.plan.arms
            if arm.duplicate_of is None
            and arm.id in series
            and races
            and all(differences[arm.id].values())
        ),
        races=tuple(
            msgspec.structs.replace(race, noise_floor=floors[size])
            for size, race in sorted(races.items())
        ),
        noise_floor=max(known, default=None),
        log_speedups=differences,
        visits=count_visits(
            [process for processes in state.processes.values() for process in processes]
        ),
        sustained=_sustained(
            state, differences, {size: max(margin, floor or 0.0) for size, floor in floors.items()}
        ),
        peaks=peaks,
        repeats=max((len(each) for sizes in series.values() for each in sizes.values()), default=1)
        - 1,
    )


def _series(state: RunState, races: Mapping[int, RaceResult], baseline: str, arm: str) -> Series:
    """Return the paired differences by batch size: the race's own series, then those of the repetitions that have any."""
    series: dict[int, list[tuple[float, ...]]] = {}
    for size in races:
        repeated = [
            paired(rounds_of(state, size, number), baseline, arm)
            for number in sorted(state.repeats)
        ]
        series[size] = [
            paired(rounds_of(state, size), baseline, arm),
            *(each for each in repeated if len(each) > 1),
        ]
    return series


def _noise_floor(differences: Sequence[float]) -> float | None:
    """Return the largest difference, as a share, that the baseline and its duplicate may still have at 95 %."""
    if len(differences) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    low, _, high = paired_interval(differences, (1 - CONFIDENCE) / 2)
    return math.expm1(max(abs(low), abs(high)))


def peaks_of(state: RunState) -> Peaks | None:
    """Return how fast the device can be, where that was measured."""
    return next(
        (
            process.peaks
            for process in reversed(state.processes.get(REFERENCE, ()))
            if process.peaks
        ),
        None,
    )


def _sustained(
    state: RunState,
    differences: Mapping[str, Mapping[int, Sequence[float]]],
    margins: Mapping[int, float],
) -> SustainedCheck | None:
    """Compare the two arms that were called without a pause with what they did in turns; None unless both were."""
    called = {
        arm: process
        for arm, processes in state.processes.items()
        for process in processes
        if process.sustained
    }
    if len(called) != 2:  # noqa: PLR2004 - a pair
        return None
    first, second = called
    size = called[first].sustained[0].batch_size
    if not (differences.get(first, {}).get(size) and differences.get(second, {}).get(size)):
        return None
    seconds = {
        arm: statistics.fmean(one.seconds / one.calls for one in process.sustained)
        for arm, process in called.items()
    }
    calls = {arm: sum(one.calls for one in process.sustained) for arm, process in called.items()}
    joules = {arm: [one.joules for one in process.energy] for arm, process in called.items()}
    burst = statistics.fmean(differences[first][size]) - statistics.fmean(differences[second][size])
    sustained = math.log(seconds[second] / seconds[first])
    return SustainedCheck(
        batch_size=size,
        arms=(first, second),
        burst_ratio=math.exp(burst),
        sustained_ratio=math.exp(sustained),
        agrees=abs(burst - sustained) <= math.log1p(margins[size]),
        joules_per_call={
            arm: sum(known for known in each if known is not None) / calls[arm]
            if each and None not in each
            else None
            for arm, each in joules.items()
        },
    )
