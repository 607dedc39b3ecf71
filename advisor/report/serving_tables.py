"""Rows of the tables about servers under load, for text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.serving import RateLevel, ServedArm
from advisor.report.document import RunDocument
from advisor.system.number_format import (
    MISSING,
    format_interval,
    format_milliseconds,
    format_number,
    format_share,
)

HEAD = ("arm", "requests/s (95%)", "tokens/s", "batch tokens/s", "requests", "failed", "discarded")
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
#: Shares of the goodput whose latency is shown, and how far a measured rate may be from them.
SHOWN_SHARES, NEAR = (0.5, 0.8, 1.0), 0.1


def server_rows(document: RunDocument) -> list[list[str]]:
    """Return the head and a row for each server, the best first; nothing for another task."""
    if document.serving is None or not document.serving.arms:
        return []
    has_cost = any(arm.cost_per_million_tokens is not None for arm in document.serving.arms)
    head = [*HEAD, *([COST_HEAD] if has_cost else [])]
    return [head, *(_server_row(arm, has_cost=has_cost) for arm in document.serving.arms)]


def _server_row(arm: ServedArm, *, has_cost: bool) -> list[str]:
    cost = format_number(arm.cost_per_million_tokens, digits=3)
    return [
        arm.arm,
        format_interval(arm.goodput, unit="", decimals=2) if arm.goodput else "none",
        format_number(arm.tokens_per_second, decimals=0),
        format_number(arm.batch_tokens_per_second, decimals=0),
        str(arm.requests),
        str(arm.failed),
        str(arm.discarded),
        *([cost] if has_cost else []),
    ]


def level_rows(document: RunDocument) -> list[list[str]]:
    """Return the head and the latency of each server near the shown shares of its goodput.

    A server without a goodput is shown at its lowest rate.
    """
    if document.serving is None:
        return []
    rows = [_level_row(arm, level) for arm in document.serving.arms for level in shown_levels(arm)]
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


def titled_tables(document: RunDocument) -> list[tuple[str, list[list[str]]]]:
    """Return the tables that have rows, each with its title; the first row is the head."""
    tables = [
        ("Servers under load", server_rows(document)),
        ("Latency near 50, 80 and 100 % of the goodput", level_rows(document)),
    ]
    return [(title, rows) for title, rows in tables if rows]
