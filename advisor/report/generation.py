"""The tables of generated text and of servers under load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from advisor.domain.accuracy import has_only_top_tokens
from advisor.domain.answer import Answer
from advisor.domain.measurement import Cell, GenerationMetrics, Measurement
from advisor.domain.serving import AskedRate, RateLevel, ServedArm
from advisor.domain.text import (
    MISSING,
    format_bounded,
    format_interval,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_share,
)
from advisor.report.formatting import Column, ReportTable, Subject, format_error, table_rows

COST_HEAD = "cost per million tokens"
ENERGY_HEAD = "J/token"
LATENCY_TITLE = "Latency near 50, 80 and 100 % of the goodput"
#: Whether one server sustains the asked rate.
VERDICTS = {"met": "enough", "not-met": "not enough", "open": "not settled"}
#: Shares of the goodput whose latency is shown, and how far a measured rate may be from them.
SHOWN_SHARES, NEAR = (0.5, 0.8, 1.0), 0.1

Generated: TypeAlias = tuple[Measurement, Cell, GenerationMetrics]


def _percentile(name: str, index: int, level: RateLevel | None) -> str:
    """Return the milliseconds of a percentile: 50, 95 or 99."""
    seconds = getattr(level, name, None)
    return format_milliseconds(seconds[index] if seconds else None, digits=3)


SERVER_COLUMNS: tuple[Column[ServedArm], ...] = (
    ("tokens/s", lambda each: format_number(each.tokens_per_second, decimals=0)),
    ("batch tokens/s", lambda each: format_number(each.batch_tokens_per_second, decimals=0)),
    ("requests", lambda each: str(each.requests)),
    ("failed", lambda each: str(each.failed)),
    ("discarded", lambda each: str(each.discarded)),
    ("texts checked", lambda each: str(each.texts_checked)),
    (COST_HEAD, lambda each: format_number(each.cost_per_million_tokens, digits=3)),
    (ENERGY_HEAD, lambda each: format_number(each.joules_per_token, digits=3)),
)
LEVEL_COLUMNS: tuple[Column[tuple[ServedArm, RateLevel]], ...] = (
    ("arm", lambda each: each[0].arm),
    ("requests/s", lambda each: format_number(each[1].rate, digits=3)),
    ("of goodput", lambda each: format_share(each[1].share) if each[0].goodput else MISSING),
    ("in limits", lambda each: format_share(each[1].met)),
    ("TTFT ms p50", lambda each: _percentile("ttft_seconds", 0, each[1])),
    ("p95", lambda each: _percentile("ttft_seconds", 1, each[1])),
    ("p99", lambda each: _percentile("ttft_seconds", 2, each[1])),
    ("ITL ms p50", lambda each: _percentile("itl_seconds", 0, each[1])),
    ("p95", lambda each: _percentile("itl_seconds", 1, each[1])),
    ("p99", lambda each: _percentile("itl_seconds", 2, each[1])),
    ("failed", lambda each: str(each[1].failed)),
)
ASKED_COLUMNS: tuple[Column[tuple[str, AskedRate]], ...] = (
    ("arm", lambda each: each[0]),
    ("one server", lambda each: VERDICTS[each[1].verdict]),
    (
        "servers",
        lambda each: format_bounded(each[1].servers, each[1].fewest_servers, each[1].most_servers),
    ),
    ("requests/s each", lambda each: format_number(each[1].rate / each[1].servers, digits=3)),
    ("measured at", lambda each: format_number(getattr(each[1].level, "rate", None), digits=3)),
    ("in limits", lambda each: format_share(getattr(each[1].level, "met", None))),
    ("TTFT ms p95", lambda each: _percentile("ttft_seconds", 1, each[1].level)),
    ("ITL ms p95", lambda each: _percentile("itl_seconds", 1, each[1].level)),
    ("price per hour", lambda each: format_number(each[1].price_per_hour)),
)


def server_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each server, the best first; nothing for another task."""
    arms, load = [*answer.served.values()], answer.question.load
    share = load.share if load else 1.0
    first: tuple[Column[ServedArm], ...] = (
        ("arm", lambda each: each.arm),
        ("requests/s (95 %)", lambda each: _write_goodput(each, share)),
    )
    return table_rows(_known_columns([*first, *SERVER_COLUMNS], arms), arms)


def _known_columns(
    columns: Sequence[Column[Subject]], subjects: Sequence[Subject]
) -> list[Column[Subject]]:
    return [each for each in columns if any(each[1](one) != MISSING for one in subjects)]


def _write_goodput(served: ServedArm, share: float) -> str:
    if served.goodput is None:
        return "none"
    least = "at least " if served.stopped_early(share) else ""
    return f"{least}{format_interval(served.goodput, unit='', decimals=2)}"


def shown_levels(served: ServedArm) -> Iterator[RateLevel]:
    """Yield the measured rates nearest to the shown shares of the goodput, where one is near.

    A server without a goodput is shown at its lowest rate.
    """
    if served.goodput is None:
        yield from served.levels[:1]
        return
    for share in SHOWN_SHARES:
        near = [level for level in served.levels if abs(level.share / share - 1) <= NEAR]
        if near:
            yield min(near, key=lambda level: (abs(level.share - share), -level.requests))


def tables(answer: Answer) -> list[ReportTable]:
    arms, load = [*answer.served.values()], answer.question.load
    levels = [(each, level) for each in arms for level in shown_levels(each)]
    asked = [(each.arm, each.asked) for each in arms if each.asked is not None]
    rate = f"{load.rate:g}" if load is not None and load.rate is not None else MISSING
    title = f"Servers for the asked {rate} requests/s"
    found = [
        ReportTable("text", TEXT_TITLE, text_rows(answer), mismatch_lines(answer)),
        ReportTable("servers", "Servers under load", server_rows(answer)),
        ReportTable("latency", LATENCY_TITLE, table_rows(LEVEL_COLUMNS, levels)),
        ReportTable("asked", title, table_rows(_known_columns(ASKED_COLUMNS, asked), asked)),
    ]
    return [table for table in found if table.rows]


TEXT_TITLE = (
    "Generated text: time to the first token (TTFT) and between tokens (ITL), rates, agreement "
    "with the reference, and use of the device"
)
#: Follows the latencies that do not add up to the time of a call.
MISMATCH_MARK = "*"


def _write_latency(seconds: float | None, metrics: GenerationMetrics) -> str:
    text = format_milliseconds(seconds, digits=3)
    return f"{text}{MISMATCH_MARK}" if metrics.latency_mismatch and seconds is not None else text


def _agreement_cells(each: Generated) -> tuple[str, str]:
    checked = next((one for one in each[0].correctness if one.shape == each[1].shape), None)
    if checked is None or checked.agreement is None:
        return MISSING, MISSING
    agreement = checked.agreement
    texts = f"{agreement.identical_sequences} of {agreement.sequences}"
    if has_only_top_tokens([checked]):
        return texts, checked.accuracy_class
    return texts, MISSING if agreement.kl_mean is None else format_error(agreement.kl_mean)


TEXT_COLUMNS: tuple[Column[Generated], ...] = (
    ("arm", lambda each: each[0].arm),
    ("batch", lambda each: str(each[1].shape)),
    ("tokens/s", lambda each: format_number(each[1].throughput.value, decimals=0)),
    ("TTFT, ms", lambda each: _write_latency(each[2].ttft_seconds, each[2])),
    ("ITL, ms", lambda each: _write_latency(each[2].itl_seconds, each[2])),
    ("tokens/s per user", lambda each: format_number(each[2].tokens_per_second_per_user, 0)),
    ("same texts", lambda each: _agreement_cells(each)[0]),
    ("divergence, nats", lambda each: _agreement_cells(each)[1]),
    ("cache MiB", lambda each: format_mebibytes(each[2].cache_bytes, digits=3)),
    # Small models exceed the memory bandwidth, because caches hold them.
    ("of bandwidth", lambda each: format_share(each[2].mbu)),
    ("of arithmetic", lambda each: format_share(each[2].mfu)),
)
#: What a machine that was not fit to measure on gives, too.
UNTIMED_HEADS = {"arm", "batch", "same texts", "divergence, nats", "cache MiB"}


def text_rows(answer: Answer) -> list[list[str]]:
    """Return the rows of the table, without speeds if the machine was not fit to measure on."""
    unfit = answer.results.is_unfit
    columns = [
        (head, (lambda _: MISSING) if unfit and head not in UNTIMED_HEADS else write)
        for head, write in TEXT_COLUMNS
    ]
    return table_rows(columns, [*_generated(answer)])


def _generated(answer: Answer) -> Iterator[Generated]:
    for _, measured in answer.ranking:
        for cell in measured.cells:
            if cell.generation is not None:
                yield measured, cell, cell.generation


def mismatch_lines(answer: Answer) -> list[str]:
    if answer.results.is_unfit:
        return []
    return [
        f"{MISMATCH_MARK} {measured.arm} @{cell.shape}: {metrics.latency_mismatch}"
        for measured, cell, metrics in _generated(answer)
        if metrics.latency_mismatch
    ]
