"""One arm's visits, builds and findings -> `Measurement`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.diagnosis import diagnose
from advisor.domain.measurement import (
    BuildSeconds,
    CallDiagnosis,
    Cell,
    Generation,
    Interval,
    Measurement,
    MemoryBytes,
    Seconds,
    Throughput,
    Visits,
)
from advisor.domain.outcome import Flexed, Latency, Loaded, Peaks, Workload
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.state import ProcessState, RunState
from advisor.intervals import geometric_mean_interval, median_interval, paired_interval
from advisor.measure.rounds import measured_process, rounds_of
from advisor.replication import FEWEST_PROCESSES, find_components, interval

CONFIDENCE = 0.95
TERA = 1e12

#: Paired log differences to the baseline by batch size, one series for each process: the race's own first.
Series = Mapping[int, Sequence[Sequence[float]]]


def summarise_arm(state: RunState, arm: Arm, series: Series, peaks: Peaks | None, dtype: str) -> Measurement:
    """Return what was measured of one arm that counts."""
    processes = [process for process in state.processes[arm.id] if process.ready]
    raced = [process for process in processes if process.repeat == 0]
    first, main, last = processes[0], raced[-1], processes[-1]
    imported, flexed = main.imported, tuple(flexed for _, flexed in sorted(main.flexed.items()))
    return Measurement(
        arm=arm.id,
        workflow=arm.workflow,
        option=arm.option,
        cells=tuple(
            msgspec.structs.replace(
                _summarise_cell(state, arm, size, series[size]),
                generation=summarise_generation(main.latency.get(size), demand_of(state, size), peaks, dtype),
            )
            for size in series
        ),
        speedup=interval_of(_overall(series)),
        build_seconds=BuildSeconds(cold=_build_seconds(first), warm=_build_seconds(last) if len(processes) > 1 else None),
        memory_bytes=_memory(main),
        correctness=tuple(checked for _, checked in sorted(main.checked.items())),
        engaged_share=main.engaged.share if main.engaged else 0.0,
        engagement=main.engaged.proof if main.engaged else "",
        versions=imported.versions if imported else {},
        settings=imported.settings if imported else {},
        facts=main.engaged.facts if main.engaged else {},
        visits=count_visits(processes),
        steady=all(warm.steady for process in processes for warm in process.warm.values()),
        diagnosis=tuple(_diagnose(state, arm, main, size, peaks, dtype) for size in series),
        flexed=flexed,
        new_shapes=new_shapes(flexed),
    )


def count_visits(processes: Sequence[ProcessState]) -> Visits:
    """Return how many visits were made, discarded, and kept although the machine was not fit."""
    watched = [one for process in processes for one in process.watched]
    return Visits(
        made=sum(len(process.visits) for process in processes),
        discarded=sum(one.discarded for one in watched),
        unfit=sum(one.unfit is not None and not one.discarded for one in watched),
    )


def new_shapes(flexed: Sequence[Flexed]) -> str | None:
    """Return what batch sizes that were not built came to, in the rubric's words: as good as the worst of them."""
    outcomes = {one.outcome for one in flexed}
    if not outcomes:
        return None
    if outcomes & {"refused", "wrong"}:
        return "refused"
    return "recompiles" if outcomes & {"stalled", "eager"} else "served"


def _overall(series: Series) -> tuple[float, float, float]:
    """Return the interval of the mean over the batch sizes, between processes where there are enough of them."""
    processes = min(len(each) for each in series.values())
    if processes < FEWEST_PROCESSES:
        return geometric_mean_interval([each[0] for each in series.values()], CONFIDENCE)
    means = [statistics.fmean(statistics.fmean(each[number]) for each in series.values()) for number in range(processes)]
    return paired_interval(means, (1 - CONFIDENCE) / 2)


def _summarise_cell(state: RunState, arm: Arm, batch_size: int, series: Sequence[Sequence[float]]) -> Cell:
    visits = [
        visits[arm.id]
        for repeat in (0, *sorted(state.repeats))
        for _, visits in sorted(rounds_of(state, batch_size, repeat).items())
        if arm.id in visits
    ]
    medians = [statistics.median(visit.seconds) for visit in visits]
    median = statistics.median(medians)
    bounds = median_interval(medians, CONFIDENCE)
    process, flops = measured_process(state, arm.id), flops_of(state, batch_size)
    repeated = len(series) >= FEWEST_PROCESSES
    level = (1 - CONFIDENCE) / 2
    return Cell(
        batch_size=batch_size,
        seconds=Seconds(
            median=median,
            low=bounds[0] if bounds else None,
            high=bounds[1] if bounds else None,
            samples=sum(len(visit.seconds) for visit in visits),
        ),
        throughput=_throughput(process.loaded if process else None, batch_size, median),
        speedup=interval_of(interval(series, level) if repeated else paired_interval(series[0], level)),
        tflops=flops / median / TERA if flops else None,
        processes=len(series),
        process_variation=math.expm1(math.sqrt(find_components(series).between)) if repeated else None,
    )


def flops_of(state: RunState, batch_size: int) -> int | None:
    """Return the floating-point operations of one call, as the reference worker counted them."""
    counts = [process.workload.get(batch_size) for process in state.processes.get(REFERENCE, ())]
    return next((count for count in reversed(counts) if count), None)


def demand_of(state: RunState, batch_size: int) -> Workload | None:
    """Return what one call asks of the device, as the reference worker counted it."""
    return next((process.demand[batch_size] for process in state.processes.get(REFERENCE, ()) if batch_size in process.demand), None)


def moved_bytes(state: RunState, process: ProcessState, batch_size: int) -> int | None:
    """Return the bytes that one call moves at the least: the weights once, unless it is known to be more."""
    demand = demand_of(state, batch_size)
    if demand is not None and demand.moved_bytes is not None:
        return demand.moved_bytes
    return process.loaded.parameter_bytes if process.loaded else None


def summarise_generation(latency: Latency | None, demand: Workload | None, peaks: Peaks | None, dtype: str) -> Generation | None:
    """Return what is known about a batch of generated text; None for another task."""
    if demand is None or demand.moved_bytes is None:
        return None
    first = statistics.median(latency.first_token_seconds) if latency else None
    whole = statistics.median(latency.whole_seconds) if latency else None
    steps = latency.output_tokens - 1 if latency else 0
    between = max(whole - first, 0.0) / steps if first is not None and whole is not None and steps else None
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    return Generation(
        ttft_seconds=first,
        itl_seconds=between,
        tokens_per_second_per_user=1 / between if between else None,
        cache_bytes=demand.cache_bytes,
        mbu=demand.step_bytes / between / peaks.bytes_per_second if demand.step_bytes and between and peaks else None,
        mfu=demand.flops / whole / peak if demand.flops and whole and peak else None,
        method="calls for one token beside calls for all, in turn",
    )


def _diagnose(state: RunState, arm: Arm, process: ProcessState, batch_size: int, peaks: Peaks | None, dtype: str) -> CallDiagnosis:
    visits = [visit for visit in process.visits if visit.batch_size == batch_size]
    enqueued = [visit.enqueue_seconds for visit in visits if visit.enqueue_seconds is not None]
    rounds = rounds_of(state, batch_size).values()
    return diagnose(
        process.diagnosed.get(batch_size),
        batch_size=batch_size,
        seconds=statistics.median(statistics.median(visits[arm.id].seconds) for visits in rounds if arm.id in visits),
        enqueue_seconds=statistics.median(enqueued) if enqueued else None,
        flops=flops_of(state, batch_size),
        weight_bytes=moved_bytes(state, process, batch_size),
        dtype=dtype,
        peaks=peaks,
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
