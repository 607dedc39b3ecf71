"""Summarise the state of a run as `Results`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from advisor.decide.arms import count_visits, measurement_of
from advisor.decide.diagnosis import device_peaks, read_inputs
from advisor.decide.drift import fit_times_to_speedups
from advisor.decide.fastest_calls import difference_of_equals, reconcile
from advisor.decide.intervals import TAIL, paired_interval, trimmed_mean
from advisor.decide.process_variance import estimate_process_variances, widen_by_variances
from advisor.decide.rounds import (
    LogSpeedups,
    paired_log_speedups,
    race_log_speedups,
    visits_by_round,
)
from advisor.domain import results
from advisor.domain.catalogue import NoisePrior
from advisor.domain.measurement import Measurement
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState, RunState
from probes.events import Peaks
from probes.outcome import Failure
from probes.shape import Shape


def collect_results(
    state: RunState,
    races: Mapping[Shape, results.RaceResult],
    question: Question,
    noise: NoisePrior,
) -> results.Results:
    """Summarise every valid arm; changes of less than `EQUIVALENCE_MARGIN` are ignored."""
    plan, baseline = state.plan, state.plan.baseline.id
    log_speedups = {
        each.id: _log_speedups(state, races, baseline, each.id)
        for each in plan.arms
        if state.is_valid(each.id)
    }
    of_duplicate = log_speedups.get(plan.duplicate, {})
    visits = count_visits([process for each in state.processes.values() for process in each])
    noise_floors = {
        shape: difference_of_equals(state, (plan.duplicate, baseline), shape)
        if results.is_busy(visits)
        else _noise_floor(of_duplicate.get(shape, ()))
        for shape in races
    }
    peaks = device_peaks(state, question.dtype)
    # Without a baseline there is no speed-up.
    is_measured = bool(races) and baseline in log_speedups
    measurements = _measure_arms(state, log_speedups, peaks, question, noise) if is_measured else []
    own = next((each for each in measurements if each.arm == baseline), None)
    processes = [len(each) for shapes in log_speedups.values() for each in shapes.values()]
    # Those of the duplicate with two rounds or more, at every shape.
    duplicates = [sum(len(rounds) > 1 for rounds in each) for each in of_duplicate.values()]
    return results.Results(
        baseline=baseline,
        measurements=tuple(fit_times_to_speedups(each, own) for each in measurements),
        races=tuple(
            msgspec.structs.replace(race, noise_floor=noise_floors[shape])
            for shape, race in sorted(races.items())
        ),
        noise_floor=max((each for each in noise_floors.values() if each is not None), default=None),
        duplicates=min(duplicates, default=0),
        visits=visits,
        sustained=_check_sustained(state, log_speedups, noise_floors),
        peaks=peaks,
        repeats=max(processes, default=1) - 1,
        stopped_builds=tuple(_stopped_builds(state)),
        inputs=read_inputs(state),
    )


def _measure_arms(
    state: RunState,
    log_speedups: Mapping[str, LogSpeedups],
    peaks: Peaks | None,
    question: Question,
    noise: NoisePrior,
) -> list[Measurement]:
    """Return the measurements of the arms with figures at every shape."""
    plan, baseline = state.plan, state.plan.baseline.id
    variances = estimate_process_variances(
        {arm: each for arm, each in log_speedups.items() if arm != baseline}, plan.duplicate, noise
    )
    paired = [
        measurement_of(state, each, log_speedups[each.id], peaks, question)
        for each in plan.distinct
        if each.id in log_speedups and all(rounds[0] for rounds in log_speedups[each.id].values())
    ]
    widened = [
        each if each.arm == baseline else widen_by_variances(each, variances[each.arm])
        for each in paired
    ]
    return [*reconcile(state, widened, noise.fastest_margin)]


def _stopped_builds(state: RunState) -> Iterator[results.StoppedBuild]:
    """Yield the arms without a measurement whose last build was ended or left out for time."""
    for planned in state.plan.distinct:
        last = state.last_process(planned.id)
        match None if state.is_valid(planned.id) else last.failure:
            case Failure("timed-out", "build", fix=fix) | Failure(
                "skipped", "build", fix=fix, skip_cause="build-limit"
            ):
                # The failure has the phase whose time was up, the process the last one it started.
                yield results.StoppedBuild(arm=planned.id, started=last.phase == "build", fix=fix)
            case _:
                pass


def _log_speedups(
    state: RunState, races: Mapping[Shape, results.RaceResult], baseline: str, arm: str
) -> LogSpeedups:
    """Return the speed-ups of the race, then those of each repetition that has some."""
    found: dict[Shape, list[tuple[float, ...]]] = {}
    for shape in races:
        repeated = [
            paired_log_speedups(visits_by_round(state, shape, number), baseline, arm)
            for number in sorted(state.repeats)
        ]
        found[shape] = [
            race_log_speedups(visits_by_round(state, shape), baseline, arm, races[shape].best),
            *(each for each in repeated if len(each) > 1),
        ]
    return found


def _noise_floor(processes: Sequence[Sequence[float]]) -> float | None:
    """Return the largest share by which the baseline and its duplicate may differ at 95 %.

    `processes` has the differences in the rounds of each pair of processes: that of the race, and
    those of its repetitions. The error is that of the spread in all of them.
    """
    paired = [each for each in processes if each]
    means = [trimmed_mean(each) for each in paired]
    spread = [one - mean for each, mean in zip(paired, means, strict=True) for one in each]
    if len(spread) < 2:  # noqa: PLR2004 - one round has no spread
        return None
    interval = paired_interval(spread, TAIL)
    return math.expm1(max(map(abs, means)) + max(abs(interval.low), abs(interval.high)))


def _check_sustained(
    state: RunState,
    log_speedups: Mapping[str, LogSpeedups],
    noise_floors: Mapping[Shape, float | None],
) -> results.SustainedCheck | None:
    """Compare two arms called without a pause with their result in the race; None without both."""
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
    raced = [log_speedups.get(arm, {}).get(shape, [()])[0] for arm in (first, second)]
    if not (raced[0] and raced[1]):
        return None
    burst = trimmed_mean(raced[0]) - trimmed_mean(raced[1])
    margin = max(results.EQUIVALENCE_MARGIN, noise_floors[shape] or 0.0)
    sustained = math.log(
        _sustained_seconds(processes[second]) / _sustained_seconds(processes[first])
    )
    return results.SustainedCheck(
        shape=shape,
        arms=(first, second),
        burst_ratio=math.exp(burst),
        sustained_ratio=math.exp(sustained),
        agrees=abs(burst - sustained) <= math.log1p(margin),
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
