"""Stage: what workers said -> `Results`. Pure; the races come in already run, so that no stage knows another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.measurement import (
    BuildSeconds,
    Cell,
    Interval,
    Measurement,
    MemoryBytes,
    RaceResult,
    Results,
    Seconds,
    Throughput,
)
from advisor.domain.outcome import Completed, Loaded, Visited
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.state import ProcessState, RunState
from advisor.intervals import geometric_mean_interval, median_interval, paired_interval

CONFIDENCE = 0.95
TERA = 1e12


def block_value(visit: Visited) -> float:
    """Return what a visit counts for in the race: the logarithm of the median of its calls."""
    return math.log(statistics.median(visit.seconds))


def rounds_of(state: RunState, batch_size: int) -> dict[int, dict[str, Visited]]:
    """Return the visits by round and arm; of a round that was begun again after an interruption, the later ones."""
    rounds: dict[int, dict[str, Visited]] = {}
    for arm, processes in state.processes.items():
        for process in processes:
            for visit in process.visits:
                if visit.batch_size == batch_size:
                    rounds.setdefault(visit.round, {})[arm] = visit
    return rounds


def measured_process(state: RunState, arm: str) -> ProcessState | None:
    """Return the arm's last process that came as far as being measured."""
    return next((process for process in reversed(state.processes.get(arm, ())) if process.ready), None)


def is_valid(state: RunState, arm: str) -> bool:
    """Say whether the arm's times count: it was found right, and nothing since has taken that back."""
    ends = [process.outcome for process in state.processes.get(arm, ())]
    return measured_process(state, arm) is not None and all(end is None or isinstance(end, Completed) for end in ends)


def summarise(state: RunState, races: Mapping[int, RaceResult]) -> Results:
    """Return the measurements of every arm that counts."""
    if state.plan is None:
        message = "a run without a plan has no results"
        raise ValueError(message)
    baseline, duplicate = state.plan.baseline, next((arm for arm in state.plan.arms if arm.duplicate_of), None)
    differences = {
        arm.id: {size: _paired(rounds_of(state, size), baseline.id, arm.id) for size in races}
        for arm in state.plan.arms
        if is_valid(state, arm.id)
    }
    floors = {size: _noise_floor(differences.get(duplicate.id, {}).get(size, ()) if duplicate else ()) for size in races}
    measurements = tuple(
        _summarise_arm(state, arm, differences[arm.id])
        for arm in state.plan.arms
        if arm.duplicate_of is None and arm.id in differences and races and all(differences[arm.id].values())
    )
    known = [floor for floor in floors.values() if floor is not None]
    return Results(
        baseline=baseline.id,
        measurements=measurements,
        races=tuple(msgspec.structs.replace(race, noise_floor=floors[size]) for size, race in sorted(races.items())),
        noise_floor=max(known, default=None),
        log_speedups=differences,
    )


def _paired(rounds: Mapping[int, Mapping[str, Visited]], baseline: str, arm: str) -> tuple[float, ...]:
    """Return, for each round both ran, the baseline's log seconds minus the arm's."""
    return tuple(
        block_value(visits[baseline]) - block_value(visits[arm])
        for _, visits in sorted(rounds.items())
        if baseline in visits and arm in visits
    )


def _noise_floor(differences: Sequence[float]) -> float | None:
    """Return the largest difference, as a share, that the baseline and its duplicate may still have at 95 %."""
    if len(differences) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    low, _, high = paired_interval(differences, (1 - CONFIDENCE) / 2)
    return math.expm1(max(abs(low), abs(high)))


def _summarise_arm(state: RunState, arm: Arm, differences: Mapping[int, Sequence[float]]) -> Measurement:
    processes = [process for process in state.processes[arm.id] if process.ready]
    first, last = processes[0], processes[-1]
    flops = {size: flops for process in state.processes.get(REFERENCE, ()) for size, flops in process.workload.items()}
    imported = last.imported
    return Measurement(
        arm=arm.id,
        workflow=arm.workflow,
        option=arm.option,
        cells=tuple(_summarise_cell(state, arm, size, differences[size], flops.get(size)) for size in differences),
        speedup=interval_of(geometric_mean_interval(list(differences.values()), CONFIDENCE)),
        build_seconds=BuildSeconds(cold=_build_seconds(first), warm=_build_seconds(last) if len(processes) > 1 else None),
        memory_bytes=_memory(last),
        correctness=tuple(checked for _, checked in sorted(last.checked.items())),
        engaged_share=last.engaged.share if last.engaged else 0.0,
        engagement=last.engaged.proof if last.engaged else "",
        versions=imported.versions if imported else {},
        settings=imported.settings if imported else {},
        facts=last.engaged.facts if last.engaged else {},
    )


def _summarise_cell(state: RunState, arm: Arm, batch_size: int, differences: Sequence[float], flops: int | None) -> Cell:
    visits = [visits[arm.id] for _, visits in sorted(rounds_of(state, batch_size).items()) if arm.id in visits]
    medians = [statistics.median(visit.seconds) for visit in visits]
    median = statistics.median(medians)
    bounds = median_interval(medians, CONFIDENCE)
    process = measured_process(state, arm.id)
    loaded = process.loaded if process else None
    return Cell(
        batch_size=batch_size,
        seconds=Seconds(
            median=median,
            low=bounds[0] if bounds else None,
            high=bounds[1] if bounds else None,
            samples=sum(len(visit.seconds) for visit in visits),
        ),
        throughput=_throughput(loaded, batch_size, median),
        speedup=interval_of(paired_interval(differences, (1 - CONFIDENCE) / 2)),
        tflops=flops / median / TERA if flops else None,
    )


def interval_of(logarithms: tuple[float, float, float]) -> Interval:
    """Return the interval of a ratio from lower bound, mean and upper bound of its logarithm."""
    low, value, high = (math.exp(bound) if math.isfinite(bound) else None for bound in logarithms)
    return Interval(value=value if value is not None else math.nan, low=low, high=high)


def _throughput(loaded: Loaded | None, batch_size: int, seconds: float) -> Throughput:
    if loaded is not None and loaded.unit == "tokens":
        return Throughput(value=batch_size * loaded.units_per_sample / seconds, unit="tokens/s")
    return Throughput(value=batch_size / seconds, unit="samples/s")


def _build_seconds(process: ProcessState) -> float:
    return sum(built.build_seconds + built.first_call_seconds for built in process.built.values())


def _memory(process: ProcessState) -> MemoryBytes:
    if process.device_memory is not None:
        return MemoryBytes(peak=process.device_memory.peak_bytes, source="device memory above what was used before the worker, by NVML")
    memory = process.memory
    if memory is None or memory.peak_rss_bytes is None:
        return MemoryBytes(peak=None, source="nobody could see it")
    return MemoryBytes(peak=memory.peak_rss_bytes, source="resident set of the worker process, high-water mark")
