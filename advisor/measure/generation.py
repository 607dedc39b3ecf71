"""Summarise text generation: time to first token, time between tokens, cache and utilisation."""

from __future__ import annotations

import statistics

from advisor.domain.measurement import GenerationMetrics
from advisor.domain.worker_events import Latency, Peaks, Workload

METHOD = "calls for one token alternate with calls for all tokens"


def summarise_generation(
    latency: Latency | None, workload: Workload | None, peaks: Peaks | None, dtype: str
) -> GenerationMetrics | None:
    """Return the metrics of one batch of generated text; None for another task."""
    if workload is None or workload.moved_bytes is None:
        return None
    ttft_seconds, itl_seconds = token_latencies(latency) if latency else (None, None)
    whole_seconds = statistics.median(latency.whole_seconds) if latency else None
    peak = peaks.operations_per_second.get(dtype) if peaks else None
    return GenerationMetrics(
        ttft_seconds=ttft_seconds,
        itl_seconds=itl_seconds,
        tokens_per_second_per_user=1 / itl_seconds if itl_seconds else None,
        cache_bytes=workload.cache_bytes,
        mbu=workload.step_bytes / itl_seconds / peaks.bytes_per_second
        if workload.step_bytes and itl_seconds and peaks
        else None,
        mfu=workload.flops / whole_seconds / peak
        if workload.flops and whole_seconds and peak
        else None,
        method=METHOD,
    )


def token_latencies(latency: Latency) -> tuple[float, float | None]:
    """Return the seconds until the first token, and between two later tokens.

    The second is None for texts of one token.
    """
    ttft_seconds = statistics.median(latency.first_token_seconds)
    steps = latency.output_tokens - 1
    if not steps:
        return ttft_seconds, None
    decode_seconds = statistics.median(latency.whole_seconds) - ttft_seconds
    return ttft_seconds, max(decode_seconds, 0.0) / steps
