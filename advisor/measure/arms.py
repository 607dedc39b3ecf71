"""One arm's visits, builds and findings -> `Measurement`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.domain.measurement import (
    BuildSeconds,
    CallDiagnosis,
    Cell,
    Generation,
    Interval,
    Measurement,
    Seconds,
    Throughput,
    Visits,
)
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.worker_events import Latency, Loaded, NewShapeResult, Peaks, Workload
from advisor.measure.diagnosis import diagnose
from advisor.measure.memory import summarise_memory
from advisor.measure.rounds import measured_process, rounds_of
from advisor.statistics.changepoint import count_stalls, find_shift
from advisor.statistics.intervals import geometric_mean_interval, median_interval, paired_interval
from advisor.statistics.replication import FEWEST_PROCESSES, find_components, interval

CONFIDENCE = 0.95
TERA = 1e12
#: An arm with at least this gain that takes at least this share of the baseline's time for a new
#: shape has lost its gain there.
CLEAR_GAIN, AS_SLOW = 1.2, 0.95

#: Paired log differences to the baseline by batch size, one series for each process: the race's own
#: first.
Series = Mapping[int, Sequence[Sequence[float]]]


def summarise_arm(
    state: RunState, arm: Arm, series: Series, peaks: Peaks | None, *, dtype: str, margin: float
) -> Measurement:
    """Return what was measured of one arm that counts."""
    processes = [process for process in state.processes[arm.id] if process.ready]
    raced = [process for process in processes if process.repeat == 0]
    first, main, last = processes[0], raced[-1], processes[-1]
    imported, speedup = main.imported, interval_of(_overall(series))
    flexed = _as_slow_as_eager(state, main.flexed, speedup)
    return Measurement(
        arm=arm.id,
        workflow=arm.workflow,
        option=arm.option,
        cells=tuple(
            msgspec.structs.replace(
                _summarise_cell(state, arm, size, series[size], margin),
                generation=summarise_generation(
                    main.latency.get(size), demand_of(state, size), peaks, dtype
                ),
            )
            for size in series
        ),
        speedup=speedup,
        build_seconds=BuildSeconds(
            cold=_build_seconds(first),
            warm=_build_seconds(last) if len(processes) > 1 else None,
            proven_cold=is_proven_cold(first),
        ),
        memory_bytes=summarise_memory(main, state.memory_checked),
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
    visits = [one for process in processes for one in process.visits]
    return Visits(
        made=len(visits),
        discarded=sum(one.discarded for one in watched),
        unfit=sum(one.unfit is not None and not one.discarded for one in watched),
        stalled_calls=sum(
            count_stalls((*one.lead_seconds, *one.seconds), statistics.median(one.seconds))
            for one in visits
        ),
    )


def new_shapes(flexed: Sequence[NewShapeResult]) -> str | None:
    """Return what batch sizes that were not built came to, in the rubric's words: as good as the worst of them."""
    outcomes = {one.outcome for one in flexed}
    if not outcomes:
        return None
    if outcomes & {"refused", "wrong"}:
        return "refused"
    return "recompiles" if outcomes & {"stalled", "eager"} else "served"


def _as_slow_as_eager(
    state: RunState, flexed: Mapping[int, NewShapeResult], speedup: Interval
) -> tuple[NewShapeResult, ...]:
    """Return what came of new shapes; one that is served without any of the arm's gain has silently fallen back to eager code."""
    eager = (
        [process.flexed for process in state.processes[state.plan.baseline.id] if process.flexed]
        if state.plan
        else []
    )
    found = []
    for size, one in sorted(flexed.items()):
        theirs = eager[-1].get(size) if eager else None
        gains = speedup.low is not None and speedup.low >= CLEAR_GAIN
        if (
            one.outcome == "served"
            and gains
            and one.steady_seconds
            and theirs
            and theirs.steady_seconds
        ):
            lost = one.steady_seconds >= AS_SLOW * theirs.steady_seconds
            reason = f"it takes {one.steady_seconds / theirs.steady_seconds:.2f} times as long as the baseline there"
            found.append(
                msgspec.structs.replace(one, outcome="eager", reason=reason) if lost else one
            )
        else:
            found.append(one)
    return tuple(found)


def is_proven_cold(process: ProcessState) -> bool | None:
    """Say whether a build began with empty caches and found nothing in any; None where that cannot be told."""
    if process.caches is None:
        return None
    if process.caches.bytes_before:
        return False
    # Hits with empty caches are the build's own: equal parts of one model.
    return None if process.caches.hits else True


def _overall(series: Series) -> tuple[float, float, float]:
    """Return the interval of the mean over the batch sizes, between processes where there are enough of them."""
    processes = min(len(each) for each in series.values())
    if processes < FEWEST_PROCESSES:
        return geometric_mean_interval([each[0] for each in series.values()], CONFIDENCE)
    means = [
        statistics.fmean(statistics.fmean(each[number]) for each in series.values())
        for number in range(processes)
    ]
    return paired_interval(means, (1 - CONFIDENCE) / 2)


def _summarise_cell(
    state: RunState, arm: Arm, batch_size: int, series: Sequence[Sequence[float]], margin: float
) -> Cell:
    visits = [
        visits[arm.id]
        for repeat in (0, *sorted(state.repeats))
        for _, visits in sorted(rounds_of(state, batch_size, repeat).items())
        if arm.id in visits
    ]
    medians = [statistics.median(visit.seconds) for visit in visits]
    median = statistics.median(medians)
    bounds = median_interval(medians, CONFIDENCE)
    streamed = [visit.streamed_seconds for visit in visits if visit.streamed_seconds is not None]
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
        throughput=_throughput(
            process.loaded if process else None,
            batch_size,
            statistics.median(streamed) if streamed else median,
        ),
        speedup=interval_of(
            interval(series, level) if repeated else paired_interval(series[0], level)
        ),
        tflops=flops / median / TERA if flops else None,
        processes=len(series),
        process_variation=math.expm1(math.sqrt(find_components(series).between))
        if repeated
        else None,
        shift=math.expm1(-find_shift(series[0], math.log1p(margin))),
    )


def flops_of(state: RunState, batch_size: int) -> int | None:
    """Return the floating-point operations of one call, as the reference worker counted them."""
    counts = [process.workload.get(batch_size) for process in state.processes.get(REFERENCE, ())]
    return next((count for count in reversed(counts) if count), None)


def demand_of(state: RunState, batch_size: int) -> Workload | None:
    """Return what one call asks of the device, as the reference worker counted it."""
    return next(
        (
            process.demand[batch_size]
            for process in state.processes.get(REFERENCE, ())
            if batch_size in process.demand
        ),
        None,
    )


def moved_bytes(state: RunState, process: ProcessState, batch_size: int) -> int | None:
    """Return the bytes that one call moves at the least: the weights once, unless it is known to be more."""
    demand = demand_of(state, batch_size)
    if demand is not None and demand.moved_bytes is not None:
        return demand.moved_bytes
    return process.loaded.parameter_bytes if process.loaded else None


def summarise_generation(
    latency: Latency | None, demand: Workload | None, peaks: Peaks | None, dtype: str
) -> Generation | None:
    """Return what is known about a batch of generated text; None for another task."""
    if demand is None or demand.moved_bytes is None:
        return None
    first, between = time_tokens(latency) if latency else (None, None)
    whole = statistics.median(latency.whole_seconds) if latency else None
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    return Generation(
        ttft_seconds=first,
        itl_seconds=between,
        tokens_per_second_per_user=1 / between if between else None,
        cache_bytes=demand.cache_bytes,
        mbu=demand.step_bytes / between / peaks.bytes_per_second
        if demand.step_bytes and between and peaks
        else None,
        mfu=demand.flops / whole / peak if demand.flops and whole and peak else None,
        method="calls for one token beside calls for all, in turn",
    )


def time_tokens(latency: Latency) -> tuple[float, float | None]:
    """Return the seconds until the first token, and between two further ones; null for texts of one token."""
    first, steps = statistics.median(latency.first_token_seconds), latency.output_tokens - 1
    return first, max(
        statistics.median(latency.whole_seconds) - first, 0.0
    ) / steps if steps else None


def _diagnose(
    state: RunState,
    arm: Arm,
    process: ProcessState,
    batch_size: int,
    peaks: Peaks | None,
    dtype: str,
) -> CallDiagnosis:
    visits = [visit for visit in process.visits if visit.batch_size == batch_size]
    enqueued = [visit.enqueue_seconds for visit in visits if visit.enqueue_seconds is not None]
    rounds = rounds_of(state, batch_size).values()
    return diagnose(
        process.diagnosed.get(batch_size),
        batch_size=batch_size,
        seconds=statistics.median(
            statistics.median(visits[arm.id].seconds) for visits in rounds if arm.id in visits
        ),
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
