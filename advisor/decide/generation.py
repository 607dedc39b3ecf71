"""Summarise text generation: time to first token, time between tokens, cache and utilisation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from advisor.decide.drift import typical_seconds
from advisor.decide.workload import bytes_per_step
from advisor.domain.measurement import GenerationMetrics
from advisor.domain.run_state import ProcessState
from probes.wire.events import BlockTimed, Peaks, Workload

METHOD = "calls for one token follow the calls for all tokens in every visit"
#: Share by which TTFT and ITL may miss the seconds of a call without a reason.
MAX_MISMATCH = 0.1


class TokenLatencies(NamedTuple):
    """Seconds to the first token, between two later ones, and of the calls behind both."""

    ttft_seconds: float
    #: None for texts of one token.
    itl_seconds: float | None
    call_seconds: float


def latencies_of_visits(visits: Sequence[BlockTimed], output_tokens: int) -> TokenLatencies | None:
    """Return the latencies from the visits that timed the first token; None without any.

    Both are medians over the visits, so that TTFT and ITL add up to the seconds of a call.
    """
    timed = [visit for visit in visits if visit.first_token_seconds]
    if not timed:
        return None
    ttft_seconds = statistics.median(
        statistics.median(visit.first_token_seconds) for visit in timed
    )
    call_seconds, steps = typical_seconds(timed), output_tokens - 1
    itl_seconds = max(call_seconds - ttft_seconds, 0.0) / steps if steps else None
    return TokenLatencies(ttft_seconds, itl_seconds, call_seconds)


def summarise_generation(
    visits: Sequence[BlockTimed],
    process: ProcessState,
    workload: Workload | None,
    peaks: Peaks | None,
    dtype: str,
) -> GenerationMetrics | None:
    """Return the metrics of one batch of generated text, from all its visits that count.

    `process` is the arm's in the race. None for another task.
    """
    if workload is None or workload.moved_bytes is None:
        return None
    shape, loaded = workload.shape, process.loaded
    output_tokens = shape.output_tokens or (loaded.units_per_sample if loaded else 1)
    latencies = latencies_of_visits(visits, output_tokens)
    itl_seconds = latencies.itl_seconds if latencies else None
    whole_seconds = latencies.call_seconds if latencies else None
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    step_bytes = bytes_per_step(workload, process)
    metrics = GenerationMetrics(
        ttft_seconds=latencies.ttft_seconds if latencies else None,
        itl_seconds=itl_seconds,
        tokens_per_second_per_user=1 / itl_seconds if itl_seconds else None,
        cache_bytes=workload.cache_bytes,
        mbu=step_bytes / itl_seconds / peaks.bytes_per_second
        if step_bytes and itl_seconds and peaks
        else None,
        mfu=workload.flops / whole_seconds / peak
        if workload.flops and whole_seconds and peak
        else None,
        method=METHOD,
    )
    call_seconds = typical_seconds(visits)
    return msgspec.structs.replace(
        metrics, latency_mismatch=explain_mismatch(metrics, call_seconds, output_tokens)
    )


def explain_mismatch(
    metrics: GenerationMetrics, call_seconds: float, output_tokens: int
) -> str | None:
    """Return why TTFT and ITL do not add up to the seconds of a call; None where they do.

    They do within `MAX_MISMATCH` if all were measured in the same visits.
    """
    ttft, itl = metrics.ttft_seconds, metrics.itl_seconds
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
