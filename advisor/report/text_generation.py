"""Render the metrics of generated text: latencies, rates, agreement and the use of the device."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.answer import Answer
from advisor.domain.measurement import Cell, GenerationMetrics, Measurement
from advisor.report.formatting import format_error
from advisor.system.number_format import (
    MISSING,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_share,
)
from probes.wire.checks import Agreement

HEAD = (
    "arm",
    "batch",
    "tokens/s",
    "TTFT, ms",
    "ITL, ms",
    "tokens/s per user",
    "same texts",
    "divergence, nats",
)
#: Follows the latencies that do not add up to the time of a call.
MISMATCH_MARK = "*"


def table_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each ranked arm and batch size; nothing for another task."""
    rows = [
        [
            measured.arm,
            str(cell.shape),
            format_number(cell.throughput.value, decimals=0),
            format_latency(metrics.ttft_seconds, metrics),
            format_latency(metrics.itl_seconds, metrics),
            format_number(metrics.tokens_per_second_per_user, decimals=0),
            *_agreement_cells(agreement_of(measured, cell)),
        ]
        for measured, cell, metrics in _generated(answer)
    ]
    return [[*HEAD], *rows] if rows else []


def _generated(answer: Answer) -> Iterator[tuple[Measurement, Cell, GenerationMetrics]]:
    for _, measured in answer.ranked:
        for cell in measured.cells if measured else ():
            if measured and cell.generation is not None:
                yield measured, cell, cell.generation


def format_latency(seconds: float | None, metrics: GenerationMetrics) -> str:
    """Return a latency in milliseconds, marked where it does not add up to the time of a call."""
    text = format_milliseconds(seconds, digits=3)
    return f"{text}{MISMATCH_MARK}" if metrics.latency_mismatch and seconds is not None else text


def agreement_of(measured: Measurement, cell: Cell) -> Agreement | None:
    """Return the agreement of an arm's texts with the reference at the cell's batch size."""
    return next(
        (each.agreement for each in measured.correctness if each.shape == cell.shape),
        None,
    )


def _agreement_cells(agreement: Agreement | None) -> tuple[str, str]:
    if agreement is None:
        return MISSING, MISSING
    divergence = agreement.kl_mean
    return (
        f"{agreement.identical_sequences} of {agreement.sequences}",
        MISSING if divergence is None else format_error(divergence),
    )


def mismatch_lines(answer: Answer) -> list[str]:
    """Return why the latencies of a cell do not add up to the time of its calls."""
    return [
        f"{MISMATCH_MARK} {measured.arm} @{cell.shape}: {metrics.latency_mismatch}"
        for measured, cell, metrics in _generated(answer)
        if metrics.latency_mismatch
    ]


def generation_lines(answer: Answer) -> list[str]:
    """Return a line for each ranked arm and batch size; nothing for another task."""
    lines = [
        f"  {measured.arm} @{cell.shape}: {format_number(cell.throughput.value, decimals=0)} "
        f"tokens/s, {line}"
        for measured, cell, metrics in _generated(answer)
        if (line := render_generation(metrics))
    ]
    notes = [f"  {line}" for line in mismatch_lines(answer)]
    return ["Generated text:", *lines, *notes] if lines else []


def render_generation(metrics: GenerationMetrics | None) -> str:
    """Return the known metrics, separated by commas; an empty text for another task."""
    if metrics is None:
        return ""
    ttft, itl = metrics.ttft_seconds, metrics.itl_seconds
    rate, cache = metrics.tokens_per_second_per_user, metrics.cache_bytes
    parts = [
        f"first token after {format_latency(ttft, metrics)} ms" if ttft is not None else "",
        f"{format_latency(itl, metrics)} ms between tokens" if itl is not None else "",
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
