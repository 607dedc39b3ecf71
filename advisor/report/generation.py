"""The tables of generated text and of servers under load."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.answer import Answer
from advisor.domain.measurement import Cell, GenerationMetrics, Measurement
from advisor.domain.serving import AskedRate, RateLevel, ServedArm
from advisor.report.formatting import Table, format_error
from advisor.text_format import (
    MISSING,
    format_count,
    format_interval,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_share,
)

SERVER_HEAD = (
    "arm",
    "requests/s (95 %)",
    "tokens/s",
    "batch tokens/s",
    "requests",
    "failed",
    "discarded",
    "texts checked",
)
ASKED_HEAD = (
    "arm",
    "one server",
    "servers",
    "requests/s each",
    "measured at",
    "in limits",
    "TTFT ms p95",
    "ITL ms p95",
)
PRICE_HEAD = "price per hour"
LEVEL_HEAD = (
    "arm",
    "requests/s",
    "of goodput",
    "in limits",
    "TTFT ms p50",
    "p95",
    "p99",
    "ITL ms p50",
    "p95",
    "p99",
    "failed",
)
COST_HEAD = "cost per million tokens"
ENERGY_HEAD = "J/token"
#: Whether one server sustains the asked rate.
VERDICTS = {"met": "enough", "not-met": "not enough", "open": "not settled"}
#: Shares of the goodput whose latency is shown, and how far a measured rate may be from them.
SHOWN_SHARES, NEAR = (0.5, 0.8, 1.0), 0.1


def server_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each server, the best first; nothing for another task."""
    if answer.results.serving is None or not answer.results.serving.arms:
        return []
    arms = answer.results.serving.arms
    #: Columns without a value are left out.
    further = {
        COST_HEAD: [arm.cost_per_million_tokens for arm in arms],
        ENERGY_HEAD: [arm.joules_per_token for arm in arms],
    }
    shown = {head: values for head, values in further.items() if any(values)}
    rows = [
        [*_server_row(arm), *(format_number(values[index], digits=3) for values in shown.values())]
        for index, arm in enumerate(arms)
    ]
    return [[*SERVER_HEAD, *shown], *rows]


def _server_row(arm: ServedArm) -> list[str]:
    return [
        arm.arm,
        format_interval(arm.goodput, unit="", decimals=2) if arm.goodput else "none",
        format_number(arm.tokens_per_second, decimals=0),
        format_number(arm.batch_tokens_per_second, decimals=0),
        str(arm.requests),
        str(arm.failed),
        str(arm.discarded),
        str(arm.texts_checked),
    ]


def level_rows(answer: Answer) -> list[list[str]]:
    """Return the head and the latency of each server near the shown shares of its goodput.

    A server without a goodput is shown at its lowest rate.
    """
    if answer.results.serving is None:
        return []
    rows = [
        _level_row(arm, level) for arm in answer.results.serving.arms for level in shown_levels(arm)
    ]
    return [list(LEVEL_HEAD), *rows] if rows else []


def shown_levels(arm: ServedArm) -> Iterator[RateLevel]:
    """Yield the measured rates nearest to the shown shares of the goodput, where one is near."""
    if arm.goodput is None:
        yield from arm.levels[:1]
        return
    for share in SHOWN_SHARES:
        near = [level for level in arm.levels if abs(level.share / share - 1) <= NEAR]
        if near:
            yield min(near, key=lambda level: (abs(level.share - share), -level.requests))


def _level_row(arm: ServedArm, level: RateLevel) -> list[str]:
    ttft, itl = level.ttft_seconds, level.itl_seconds
    return [
        arm.arm,
        format_number(level.rate, digits=3),
        format_share(level.share) if arm.goodput else MISSING,
        format_share(level.met),
        *(format_milliseconds(each, digits=3) for each in ttft or (None,) * 3),
        *(format_milliseconds(each, digits=3) for each in itl or (None,) * 3),
        str(level.failed),
    ]


def asked_rows(answer: Answer) -> list[list[str]]:
    """Return the head and how each server compares with the asked rate; nothing without one."""
    arms = answer.results.serving.arms if answer.results.serving is not None else ()
    compared = [(arm.arm, arm.asked) for arm in arms if arm.asked is not None]
    if not compared:
        return []
    has_price = any(asked.price_per_hour is not None for _, asked in compared)
    head = [*ASKED_HEAD, *([PRICE_HEAD] if has_price else [])]
    return [head, *(_asked_row(arm, asked, has_price=has_price) for arm, asked in compared)]


def _asked_row(arm: str, asked: AskedRate, *, has_price: bool) -> list[str]:
    level = asked.level
    ttft, itl = (level.ttft_seconds, level.itl_seconds) if level else (None, None)
    return [
        arm,
        VERDICTS[asked.verdict],
        format_count(asked.servers, asked.fewest_servers, asked.most_servers),
        format_number(asked.rate / asked.servers, digits=3),
        format_number(level.rate if level else None, digits=3),
        format_share(level.met) if level else MISSING,
        *(format_milliseconds(each[1] if each else None, digits=3) for each in (ttft, itl)),
        *([format_number(asked.price_per_hour)] if has_price else []),
    ]


def tables(answer: Answer) -> list[Table]:
    """Return the tables of generated text and of servers that have rows."""
    found = [
        Table("text", TEXT_TITLE, text_rows(answer), mismatch_lines(answer)),
        Table("servers", "Servers under load", server_rows(answer)),
        Table("latency", "Latency near 50, 80 and 100 % of the goodput", level_rows(answer)),
        Table(
            "asked",
            f"Servers for the asked {_asked_rate(answer)} requests/s",
            asked_rows(answer),
        ),
    ]
    return [table for table in found if table.rows]


def _asked_rate(answer: Answer) -> str:
    load = answer.question.load
    return f"{load.rate:g}" if load is not None and load.rate is not None else MISSING


TEXT_HEAD = (
    "arm",
    "batch",
    "tokens/s",
    "TTFT, ms",
    "ITL, ms",
    "tokens/s per user",
    "same texts",
    "divergence, nats",
    "cache MiB",
    "of bandwidth",
    "of arithmetic",
)
TEXT_TITLE = (
    "Generated text: time to the first token (TTFT) and between tokens (ITL), rates, agreement "
    "with the reference, and use of the device"
)
#: Follows the latencies that do not add up to the time of a call.
MISMATCH_MARK = "*"


def text_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each ranked arm and batch size; nothing for another task."""
    rows = [
        [
            measured.arm,
            str(cell.shape),
            format_number(cell.throughput.value, decimals=0),
            format_latency(metrics.ttft_seconds, metrics),
            format_latency(metrics.itl_seconds, metrics),
            format_number(metrics.tokens_per_second_per_user, decimals=0),
            *_agreement_cells(measured, cell),
            format_mebibytes(metrics.cache_bytes, digits=3),
            # Small models exceed the memory bandwidth, because caches hold them.
            format_share(metrics.mbu),
            format_share(metrics.mfu),
        ]
        for measured, cell, metrics in _generated(answer)
    ]
    return [[*TEXT_HEAD], *rows] if rows else []


def _generated(answer: Answer) -> Iterator[tuple[Measurement, Cell, GenerationMetrics]]:
    for _, measured in answer.ranked:
        for cell in measured.cells:
            if cell.generation is not None:
                yield measured, cell, cell.generation


def format_latency(seconds: float | None, metrics: GenerationMetrics) -> str:
    """Return a latency in milliseconds, marked where it does not add up to the time of a call."""
    text = format_milliseconds(seconds, digits=3)
    return f"{text}{MISMATCH_MARK}" if metrics.latency_mismatch and seconds is not None else text


def _agreement_cells(measured: Measurement, cell: Cell) -> tuple[str, str]:
    """Return how far an arm's texts agree with the reference at the cell's batch size."""
    checks = (each.agreement for each in measured.correctness if each.shape == cell.shape)
    agreement = next(checks, None)
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
