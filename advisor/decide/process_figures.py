"""Summarise the builds of an arm, its memory, the times of its texts, and its new shapes."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from advisor.decide.diagnosis import bytes_per_step
from advisor.decide.drift import typical_seconds
from advisor.domain import measurement
from advisor.domain.plan import EAGER, Arm
from advisor.domain.run_events import DeviceMemory, MemoryChecked
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.text import MEBIBYTE
from probes.events import MemoryRead, NewShapeResult, Peaks, Visited, Workload
from probes.shape import Shape


def summarise_builds(processes: Sequence[ProcessState]) -> measurement.BuildSeconds:
    # The processes are in the order of their start.
    cold, (first, *others) = _cold_process(processes), processes
    # The last one that found the caches of an earlier one.
    warm = next((each for each in reversed(others) if not _is_cold_alone(each, first)), None)
    started = cold.build_started
    return measurement.BuildSeconds(
        cold=cold.build_seconds,
        warm=warm.build_seconds if warm else None,
        worst=max((built.seconds for built in cold.built.values()), default=None),
        processors=started.processors if started else None,
        builds_at_once=started.builds_at_once if started else None,
    )


def _cold_process(processes: Sequence[ProcessState]) -> ProcessState:
    """Return the first process, or a later one that was built alone where the first was not."""
    first = processes[0]
    if first.build_started is None or first.build_started.builds_at_once == 1:
        return first
    return next((each for each in processes[1:] if _is_cold_alone(each, first)), first)


def _is_cold_alone(process: ProcessState, first: ProcessState) -> bool:
    """Return whether the process built alone and without the caches that `first` had left."""
    before, left = process.caches, first.caches
    is_cold = before is not None and before.bytes_before == 0
    return process.build_started is None and is_cold and left is not None and left.bytes_after > 0


#: The device's count of a known allocation may differ from its size by this much.
TOLERANCE_BYTES = 8 * MEBIBYTE
DEVICE_SOURCE = "increase in used device memory since before the worker started, by NVML"
FREED_SOURCE = "device memory that the end of the worker freed, by NVML"
PENDING_SOURCE = "not known yet: the device's memory is read when the worker ends"
HOST_SOURCE = "peak resident set size of the worker process"


def summarise_memory(
    process: ProcessState, checked: MemoryChecked | None
) -> measurement.MemoryBytes:
    # The memory of a device is that of the built shapes; others are tried later.
    device, host, warm = process.device_memory, process.memory, process.warm_memory
    reserved = warm.device_reserved_bytes if warm else None
    if device is None and (checked is not None or reserved is not None):
        return measurement.MemoryBytes(peak=None, source=PENDING_SOURCE)
    if device is None:
        if host is None or host.peak_rss_bytes is None:
            return measurement.MemoryBytes(peak=None, source="not measured")
        return measurement.MemoryBytes(peak=host.peak_rss_bytes, source=HOST_SOURCE)
    problem = implausible_because(device, warm, checked)
    if problem or device.peak_bytes is None:
        return measurement.MemoryBytes(peak=None, source=f"not known: {problem}")
    is_freed = device.source == "freed"
    return measurement.MemoryBytes(
        peak=device.peak_bytes + (released_earlier(warm) if is_freed else 0),
        source=FREED_SOURCE if is_freed else DEVICE_SOURCE,
        serving=device.serving_bytes,
    )


def memory_of_processes(
    main: ProcessState, processes: Sequence[ProcessState], checked: MemoryChecked | None
) -> measurement.MemoryBytes:
    """Return the memory of `main`, or of another process where it is unknown, with the spread."""
    found = [summarise_memory(each, checked) for each in processes]
    peaks = sorted(each.peak for each in found if each.peak is not None)
    several = (peaks[0], peaks[-1]) if len(peaks) > 1 else None
    of_main = summarise_memory(main, checked)
    known = (each for each in (of_main, *found) if each.peak is not None)
    return msgspec.structs.replace(next(known, of_main), spread=several)


def released_earlier(warm: MemoryRead | None) -> int:
    """Return the bytes that PyTorch's allocator released after its peak.

    Weights that are quantised on the device after they were loaded are such bytes.
    """
    if warm is None or warm.device_reserved_bytes is None or warm.device_held_bytes is None:
        return 0
    return max(warm.device_reserved_bytes - warm.device_held_bytes, 0)


def implausible_because(
    device: DeviceMemory, warm: MemoryRead | None, checked: MemoryChecked | None
) -> str | None:
    if checked is not None:
        seen, size = checked.seen_bytes, checked.allocated_bytes
        if seen is None or abs(seen - size) > TOLERANCE_BYTES:
            counted = "nothing" if seen is None else f"{seen / MEBIBYTE:,.0f} MiB"
            return f"NVML reported {counted} for a test allocation of {size / MEBIBYTE:.0f} MiB"
    if device.peak_bytes is None:
        return "the device does not report its memory use"
    if device.peak_bytes <= 0:
        return "NVML reports no memory for the worker, as in some containers"
    if device.total_bytes is not None and device.peak_bytes > device.total_bytes:
        return "NVML reports more memory than the device has"
    reserved = warm.device_reserved_bytes if warm else None
    if device.source == "freed" and reserved is not None:
        reserved -= released_earlier(warm)
    if reserved is not None and device.peak_bytes < reserved:
        return (
            "NVML reports less than PyTorch alone reserved, "
            "so other processes freed memory at the same time"
        )
    return None


#: Share by which TTFT and ITL may miss the seconds of a call without a reason.
MAX_MISMATCH = 0.1


def summarise_generation(
    visits: Sequence[Visited],
    process: ProcessState,
    workload: Workload | None,
    peaks: Peaks | None,
    dtype: str,
) -> measurement.GenerationMetrics | None:
    """Return the figures of generated text; None for other tasks. `process` is that of the race."""
    if workload is None or workload.moved_bytes is None:
        return None
    opened, call_seconds = process.opened, typical_seconds(visits)
    output_tokens = workload.shape.output_tokens or (opened.units_per_sample if opened else 1)
    ttft = itl = latency = None
    # Both are medians over the visits that timed the first token, so that they add up.
    if timed := [visit for visit in visits if visit.first_token_seconds]:
        firsts = (statistics.median(visit.first_token_seconds) for visit in timed)
        ttft, latency = statistics.median(firsts), typical_seconds(timed)
        steps = output_tokens - 1
        itl = max(latency - ttft, 0.0) / steps if steps else None
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    step_bytes = bytes_per_step(workload, process)
    return measurement.GenerationMetrics(
        ttft_seconds=ttft,
        itl_seconds=itl,
        tokens_per_second_per_user=1 / itl if itl else None,
        cache_bytes=workload.cache_bytes,
        mbu=step_bytes / itl / peaks.bytes_per_second if step_bytes and itl and peaks else None,
        mfu=workload.flops / latency / peak if workload.flops and latency and peak else None,
        latency_mismatch=explain_mismatch(ttft, itl, call_seconds, output_tokens),
    )


def explain_mismatch(
    ttft: float | None, itl: float | None, call_seconds: float, output_tokens: int
) -> str | None:
    """Return why TTFT and ITL do not add up to a call; None where they do within `MAX_MISMATCH`."""
    if ttft is None or itl is None:
        return None
    implied = ttft + itl * (output_tokens - 1)
    if abs(implied / call_seconds - 1) <= MAX_MISMATCH:
        return None
    return (
        "TTFT and ITL come from fewer visits than the time of a call: these calls took"
        f" {implied * 1e3:.3g} ms, those of the race "
        f"{call_seconds * 1e3:.3g} ms"
    )


#: Lower bound of the speed-up from which a silent fallback to eager code shows.
CLEAR_SPEEDUP = 1.2
#: A first call has built something if it takes this much longer than that of eager PyTorch, which
#: only loads kernels.
BUILD_SECONDS = 0.25
#: An arm that takes at least this share of the baseline's seconds for a new shape has no speed-up.
FALLBACK_SHARE = 0.95


def worst_behaviour(results: Sequence[NewShapeResult]) -> measurement.NewShapeBehaviour | None:
    """Return what the worst result shows; None if nothing was tried."""
    handled = {result.handling for result in results} - {"skipped"}
    if not handled:
        return None
    if handled & {"refused", "wrong"}:
        return "refused"
    return "recompiles" if handled & {"stalled", "eager"} else "served"


def new_shape_results_of(process: ProcessState) -> Mapping[Shape, NewShapeResult]:
    """Return the results of a process by shape, with the one at which it ended.

    A shape that took too long is `skipped`: the process was killed before it had a result,
    so it is not known what it did. Any other end is a refusal.
    """
    results, shape = process.new_shape_results, getattr(process.new_shape_started, "shape", None)
    if shape is None or shape in results or process.outcome is None:
        return results
    failure = process.failure
    is_skipped = failure is None or failure.status in {"timed-out", "skipped"}
    ended = NewShapeResult(
        shape=shape,
        handling="skipped" if is_skipped else "refused",
        first_call_seconds=None,
        steady_seconds=None,
        reason=failure.reason if failure else "it took longer than the time limit",
    )
    return {**results, shape: ended}


def compare_new_shapes(
    state: RunState,
    planned: Arm,
    results: Mapping[Shape, NewShapeResult],
    speedup: measurement.Interval,
) -> tuple[NewShapeResult, ...]:
    """Return the results in order; a shape served without the arm's speed-up has a reason.

    It is `eager` if the workflow may have run eager code. A slow first call is no build if that of
    eager PyTorch is as slow.
    """
    tried = [*filter(None, map(new_shape_results_of, state.processes[state.plan.baseline.id]))]
    baseline = tried[-1] if tried else {}
    is_eager = state.plan.baseline.id == EAGER
    gains = speedup.low is not None and speedup.low >= CLEAR_SPEEDUP
    compared = []
    for shape, each in sorted(results.items()):
        other = baseline.get(shape)
        result = _without_loading(each, other) if is_eager and other else each
        compared.append(_mark(planned, result, other) if gains else result)
    return tuple(compared)


def _without_loading(result: NewShapeResult, eager: NewShapeResult) -> NewShapeResult:
    longer = (result.first_call_seconds or 0.0) - (eager.first_call_seconds or 0.0)
    if result.handling != "stalled" or longer > BUILD_SECONDS:
        return result
    return dataclasses.replace(result, handling="served")


def _mark(planned: Arm, result: NewShapeResult, baseline: NewShapeResult | None) -> NewShapeResult:
    seconds, eager_seconds = result.steady_seconds, baseline.steady_seconds if baseline else None
    if result.handling != "served" or not seconds or not eager_seconds:
        return result
    if seconds < FALLBACK_SHARE * eager_seconds:
        return result
    reason = f"{seconds / eager_seconds:.2f} times as long as the baseline at this shape"
    return dataclasses.replace(
        result, handling="eager" if planned.eager_fallback else "served", reason=reason
    )
