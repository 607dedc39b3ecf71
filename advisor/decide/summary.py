"""Summarise the state of a run as `Results`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from advisor.decide.arms import Series, count_visits, summarise_arm
from advisor.decide.diagnosis import device_peaks, read_inputs
from advisor.decide.drift import bound_by_speedups, check_sustained
from advisor.decide.fastest_calls import reconcile
from advisor.decide.intervals import TAIL, paired_interval
from advisor.decide.process_variance import estimate_process_variances, widen_by_variances
from advisor.decide.rounds import (
    is_valid,
    paired_log_speedups,
    race_log_speedups,
    visits_by_round,
)
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Measurement
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Dtype
from advisor.domain.results import EQUIVALENCE_MARGIN, RaceResult, Results, StoppedBuild
from advisor.domain.run_state import ProcessState, RunState
from probes.wire.outcome import Failure
from probes.wire.shape import Shape

#: Log speed-ups over the baseline by arm and shape, in the order of the rounds.
LogSpeedups = Mapping[str, Mapping[Shape, Sequence[float]]]


def summarise(
    state: RunState,
    races: Mapping[Shape, RaceResult],
    *,
    dtype: Dtype,
    noise: NoisePrior,
    weights: Mapping[Shape, float] | None = None,
) -> Results:
    """Return the measurements of every valid arm, made in `dtype`.

    Changes of less than `EQUIVALENCE_MARGIN` are ignored. `noise` is what equal processes are known
    to differ by. Without `weights` all shapes have the same.
    """
    plan = state.plan
    baseline = plan.baseline.id
    series = {
        arm.id: _series_by_shape(state, races, baseline, arm.id)
        for arm in plan.arms
        if is_valid(state, arm.id)
    }
    log_speedups = {
        arm: {shape: tuple(each[0]) for shape, each in shapes.items()}
        for arm, shapes in series.items()
    }
    noise_floors = _noise_floors(plan, log_speedups, races)
    known_floors = [floor for floor in noise_floors.values() if floor is not None]
    margins = {
        shape: max(EQUIVALENCE_MARGIN, floor or 0.0) for shape, floor in noise_floors.items()
    }
    peaks = device_peaks(state, dtype)
    variances = estimate_process_variances(
        {arm: each for arm, each in series.items() if arm != baseline},
        _duplicate_of(plan),
        noise,
    )
    paired = [
        widen_by_variances(
            summarise_arm(state, arm, series[arm.id], peaks, dtype=dtype, weights=weights),
            variances.get(arm.id, {}),
            baseline,
        )
        for arm in (_comparable_arms(plan, log_speedups) if races else ())
    ]
    measurements = [*reconcile(state, paired, plan, noise.fastest_margin)]
    return Results(
        baseline=baseline,
        measurements=tuple(_bound_call_times(measurements, baseline)),
        races=tuple(
            msgspec.structs.replace(race, noise_floor=noise_floors[shape])
            for shape, race in sorted(races.items())
        ),
        noise_floor=max(known_floors, default=None),
        duplicates=_count_duplicates(series.get(_duplicate_of(plan) or "", {})),
        visits=count_visits([process for each in state.processes.values() for process in each]),
        sustained=check_sustained(state, log_speedups, margins),
        peaks=peaks,
        repeats=_count_repetitions(series.values()),
        stopped_builds=tuple(_stopped_builds(state)),
        inputs=read_inputs(state),
    )


def _bound_call_times(measurements: Sequence[Measurement], baseline: str) -> Iterator[Measurement]:
    """Yield the measurements with bounds of their call times; none without the baseline's."""
    own = next((each for each in measurements if each.arm == baseline), None)
    for measurement in measurements:
        yield bound_by_speedups(measurement, own) if own else measurement


def _comparable_arms(plan: Plan, log_speedups: LogSpeedups) -> Iterator[Arm]:
    """Yield the arms with figures at every shape, without the duplicate of the baseline."""
    for arm in plan.arms:
        if (
            arm.duplicate_of is None
            and arm.id in log_speedups
            and all(log_speedups[arm.id].values())
        ):
            yield arm


def _stopped_builds(state: RunState) -> Iterator[StoppedBuild]:
    """Yield the arms without a measurement whose last build was ended or left out for time."""
    for arm in state.plan.arms:
        processes = state.processes.get(arm.id)
        last = processes[-1] if processes else ProcessState()
        is_measured = is_valid(state, arm.id) or arm.duplicate_of is not None
        if is_measured:
            continue
        match last.failure:
            case Failure("timed-out", "build", fix=fix) | Failure(
                "skipped", "build", fix=fix, skip_cause="build-limit"
            ):
                # The failure has the phase whose time was up, the process the last one it started.
                yield StoppedBuild(arm=arm.id, started=last.phase == "build", fix=fix)
            case _:
                pass


def _count_repetitions(series: Iterable[Series]) -> int:
    """Return the largest number of repetitions of an arm at a shape."""
    return max((len(each) for shapes in series for each in shapes.values()), default=1) - 1


def _count_duplicates(series: Series) -> int:
    """Return the processes of the duplicate with two rounds or more at every shape."""
    return min(
        (sum(len(rounds) > 1 for rounds in processes) for processes in series.values()), default=0
    )


def _series_by_shape(
    state: RunState, races: Mapping[Shape, RaceResult], baseline: str, arm: str
) -> Series:
    """Return the paired log speed-ups of the race, then those of each repetition that has some."""
    series: dict[Shape, list[tuple[float, ...]]] = {}
    for shape in races:
        repeated = [
            paired_log_speedups(visits_by_round(state, shape, number), baseline, arm)
            for number in sorted(state.repeats)
        ]
        series[shape] = [
            race_log_speedups(visits_by_round(state, shape), baseline, arm, races[shape].best),
            *(each for each in repeated if len(each) > 1),
        ]
    return series


def _duplicate_of(plan: Plan) -> str | None:
    return next((arm.id for arm in plan.arms if arm.duplicate_of), None)


def _noise_floors(
    plan: Plan, log_speedups: LogSpeedups, races: Mapping[Shape, RaceResult]
) -> dict[Shape, float | None]:
    """Return the largest share by which the baseline and its duplicate may differ at 95 %.

    It is by shape; None without two rounds of the duplicate.
    """
    found: dict[Shape, float | None] = dict.fromkeys(races)
    for shape, differences in log_speedups.get(_duplicate_of(plan) or "", {}).items():
        if len(differences) > 1:
            interval = paired_interval(differences, TAIL)
            found[shape] = math.expm1(max(abs(interval.low), abs(interval.high)))
    return found
