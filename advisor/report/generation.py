"""The tables of generated text and of servers under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from advisor.decide.trust import is_unfit
from advisor.domain.accuracy import is_of_likeliest
from advisor.domain.answer import Answer
from advisor.domain.measurement import Cell, GenerationMetrics, Measurement
from advisor.domain.serving import AskedRate, RateLevel, ServedArm
from advisor.report.formatting import ReportTable, format_error
from advisor.text_format import (
    MISSING,
    format_count,
    format_interval,
    format_mebibytes,
    format_milliseconds,
    format_number,
    format_share,
)

COST_HEAD = "cost per million tokens"
ENERGY_HEAD = "J/token"
LATENCY_TITLE = "Latency near 50, 80 and 100 % of the goodput"
#: Whether one server sustains the asked rate.
VERDICTS = {"met": "enough", "not-met": "not enough", "open": "not settled"}
#: Shares of the goodput whose latency is shown, and how far a measured rate may be from them.
SHOWN_SHARES, NEAR = (0.5, 0.8, 1.0), 0.1


Subject = TypeVar("Subject")
#: The head of a column, and what it has in a row.
Column: TypeAlias = tuple[str, Callable[[Subject], str]]
#: A server at one rate of requests, and a server next to the asked rate.
AtRate: TypeAlias = tuple[ServedArm, RateLevel]
Asked: TypeAlias = tuple[str, AskedRate]


def _rows(columns: Sequence[Column[Subject]], subjects: Sequence[Subject]) -> list[list[str]]:
    rows = [[write(each) for _, write in columns] for each in subjects]
    return [[head for head, _ in columns], *rows] if rows else []


def _percentile(name: str, index: int, level: RateLevel | None) -> str:
    """Return the milliseconds of a percentile: 50, 95 or 99."""
    seconds = getattr(level, name, None)
    return format_milliseconds(seconds[index] if seconds else None, digits=3)


SERVER_COLUMNS: tuple[Column[ServedArm], ...] = (
    ("tokens/s", lambda arm: format_number(arm.tokens_per_second, decimals=0)),
    ("batch tokens/s", lambda arm: format_number(arm.batch_tokens_per_second, decimals=0)),
    ("requests", lambda arm: str(arm.requests)),
    ("failed", lambda arm: str(arm.failed)),
    ("discarded", lambda arm: str(arm.discarded)),
    ("texts checked", lambda arm: str(arm.texts_checked)),
)
#: Columns that are left out where no server has a value.
OPTIONAL_COLUMNS: tuple[Column[ServedArm], ...] = (
    (COST_HEAD, lambda arm: format_number(arm.cost_per_million_tokens, digits=3)),
    (ENERGY_HEAD, lambda arm: format_number(arm.joules_per_token, digits=3)),
)
LEVEL_COLUMNS: tuple[Column[AtRate], ...] = (
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
ASKED_COLUMNS: tuple[Column[Asked], ...] = (
    ("arm", lambda each: each[0]),
    ("one server", lambda each: VERDICTS[each[1].verdict]),
    (
        "servers",
        lambda each: format_count(each[1].servers, each[1].fewest_servers, each[1].most_servers),
    ),
    ("requests/s each", lambda each: format_number(each[1].rate / each[1].servers, digits=3)),
    ("measured at", lambda each: format_number(getattr(each[1].level, "rate", None), digits=3)),
    ("in limits", lambda each: format_share(getattr(each[1].level, "met", None))),
    ("TTFT ms p95", lambda each: _percentile("ttft_seconds", 1, each[1].level)),
    ("ITL ms p95", lambda each: _percentile("itl_seconds", 1, each[1].level)),
)
PRICE_COLUMN: Column[Asked] = ("price per hour", lambda each: format_number(each[1].price_per_hour))


def server_rows(answer: Answer) -> list[list[str]]:
    """Return the head and a row for each server, the best first; nothing for another task."""
    arms, load = [*answer.served.values()], answer.question.load
    share = load.share if load else 1.0
    optional = [
        column for column in OPTIONAL_COLUMNS if any(column[1](arm) != MISSING for arm in arms)
    ]
    first: tuple[Column[ServedArm], ...] = (
        ("arm", lambda arm: arm.arm),
        ("requests/s (95 %)", lambda arm: _write_goodput(arm, share)),
    )
    return _rows([*first, *SERVER_COLUMNS, *optional], arms)


def _write_goodput(arm: ServedArm, share: float) -> str:
    if arm.goodput is None:
        return "none"
    least = "at least " if arm.stopped_early(share) else ""
    return f"{least}{format_interval(arm.goodput, unit='', decimals=2)}"


def shown_levels(arm: ServedArm) -> Iterator[RateLevel]:
    """Yield the measured rates nearest to the shown shares of the goodput, where one is near.

    A server without a goodput is shown at its lowest rate.
    """
    if arm.goodput is None:
        yield from arm.levels[:1]
        return
    for share in SHOWN_SHARES:
        near = [level for level in arm.levels if abs(level.share / share - 1) <= NEAR]
        if near:
            yield min(near, key=lambda level: (abs(level.share - share), -level.requests))


def tables(answer: Answer) -> list[ReportTable]:
    arms, load = [*answer.served.values()], answer.question.load
    levels = [(arm, level) for arm in arms for level in shown_levels(arm)]
    asked = [(arm.arm, arm.asked) for arm in arms if arm.asked is not None]
    has_price = any(each.price_per_hour is not None for _, each in asked)
    columns = [*ASKED_COLUMNS, *([PRICE_COLUMN] if has_price else [])]
    rate = f"{load.rate:g}" if load is not None and load.rate is not None else MISSING
    found = [
        ReportTable("text", TEXT_TITLE, text_rows(answer), mismatch_lines(answer)),
        ReportTable("servers", "Servers under load", server_rows(answer)),
        ReportTable("latency", LATENCY_TITLE, _rows(LEVEL_COLUMNS, levels)),
        ReportTable("asked", f"Servers for the asked {rate} requests/s", _rows(columns, asked)),
    ]
    return [table for table in found if table.rows]


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
    """Speeds of a machine that was not fit to measure on are left out."""
    rows = [
        [
            measured.arm,
            str(cell.shape),
            *speeds[:4],
            *_agreement_cells(measured, cell),
            format_mebibytes(metrics.cache_bytes, digits=3),
            *speeds[4:],
        ]
        for measured, cell, metrics in _generated(answer)
        for speeds in [_speed_cells(cell, metrics, unfit=is_unfit(answer.results))]
    ]
    return [[*TEXT_HEAD], *rows] if rows else []


def _speed_cells(cell: Cell, metrics: GenerationMetrics, *, unfit: bool) -> list[str]:
    cells = [
        format_number(cell.throughput.value, decimals=0),
        format_latency(metrics.ttft_seconds, metrics),
        format_latency(metrics.itl_seconds, metrics),
        format_number(metrics.tokens_per_second_per_user, decimals=0),
        # Small models exceed the memory bandwidth, because caches hold them.
        format_share(metrics.mbu),
        format_share(metrics.mfu),
    ]
    return [MISSING for _ in cells] if unfit else cells


def _generated(answer: Answer) -> Iterator[tuple[Measurement, Cell, GenerationMetrics]]:
    for _, measured in answer.ranked:
        for cell in measured.cells:
            if cell.generation is not None:
                yield measured, cell, cell.generation


def format_latency(seconds: float | None, metrics: GenerationMetrics) -> str:
    text = format_milliseconds(seconds, digits=3)
    return f"{text}{MISMATCH_MARK}" if metrics.latency_mismatch and seconds is not None else text


def _agreement_cells(measured: Measurement, cell: Cell) -> tuple[str, str]:
    checked = next((each for each in measured.correctness if each.shape == cell.shape), None)
    if checked is None or checked.agreement is None:
        return MISSING, MISSING
    agreement = checked.agreement
    texts = f"{agreement.identical_sequences} of {agreement.sequences}"
    if is_of_likeliest([checked]):
        return texts, checked.accuracy_class
    return texts, MISSING if agreement.kl_mean is None else format_error(agreement.kl_mean)


def mismatch_lines(answer: Answer) -> list[str]:
    if is_unfit(answer.results):
        return []
    return [
        f"{MISMATCH_MARK} {measured.arm} @{cell.shape}: {metrics.latency_mismatch}"
        for measured, cell, metrics in _generated(answer)
        if metrics.latency_mismatch
    ]
