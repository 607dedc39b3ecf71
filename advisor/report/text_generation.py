"""Render the metrics of generated text: latencies, rates and the use of the device."""

from __future__ import annotations

from advisor.domain.measurement import GenerationMetrics
from advisor.report.document import RunDocument
from advisor.system.number_format import (
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_share,
)


def generation_lines(document: RunDocument) -> list[str]:
    """Return a line for each ranked arm and batch size; nothing for another task."""
    lines = [
        f"  {entry.arm} @{cell.batch_size}: {format_number(cell.throughput.value, decimals=0)} "
        f"tokens/s, {metrics}"
        for entry in document.workflows
        for cell in entry.cells
        if entry.rank is not None and (metrics := render_generation(cell.generation))
    ]
    return ["Generated text:", *lines] if lines else []


def render_generation(metrics: GenerationMetrics | None) -> str:
    """Return the known metrics, separated by commas; an empty text for another task."""
    if metrics is None:
        return ""
    ttft, itl = metrics.ttft_seconds, metrics.itl_seconds
    rate, cache = metrics.tokens_per_second_per_user, metrics.cache_bytes
    parts = [
        f"first token after {format_milliseconds(ttft, digits=3)} ms" if ttft is not None else "",
        f"{format_milliseconds(itl, digits=3)} ms between tokens" if itl is not None else "",
        f"{format_number(rate, digits=3)} tokens/s per user" if rate is not None else "",
        f"KV cache {format_mebibytes(cache, digits=3)} MiB" if cache is not None else "",
        render_bandwidth(metrics.mbu),
        f"{format_share(metrics.mfu)} of peak arithmetic" if metrics.mfu is not None else "",
    ]
    return ", ".join(filter(None, parts))


def render_bandwidth(mbu: float | None) -> str:
    """Return the share of the memory bandwidth; small models exceed 1 because caches hold them."""
    if mbu is None:
        return ""
    return (
        f"{format_share(mbu)} of the memory bandwidth"
        if mbu <= 1
        else "more than the memory bandwidth (served from caches)"
    )
