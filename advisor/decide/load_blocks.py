"""Blocks of requests to servers: which requests met the limits, and the latency by rate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.decide.intervals import nearest_rank
from advisor.decide.missed_curve import LoadBlock, count_groups
from advisor.domain.question import LoadQuestion
from advisor.domain.run_events import LoadMeasured
from advisor.domain.run_state import ProcessState
from advisor.domain.serving import RateLevel, ServedRequest

PERCENTILES = (0.5, 0.95, 0.99)
#: Rates within this factor are one level.
SAME_RATE = 1.02


def meets_limits(request: ServedRequest, load: LoadQuestion) -> bool:
    """Return whether a request was answered within both limits.

    A text of a single token has no time between tokens.
    """
    return (
        request.failure is None
        and request.ttft is not None
        and request.ttft <= load.ttft_seconds
        and (request.itl is None or request.itl <= load.itl_seconds)
    )


def load_block(measured: LoadMeasured, load: LoadQuestion) -> LoadBlock:
    """Return how many requests of a block met the limits."""
    missed = [not meets_limits(request, load) for request in measured.requests]
    met = len(missed) - sum(missed)
    return LoadBlock(measured.rate, met, len(missed), count_groups(missed))


def valid_blocks(processes: Iterable[ProcessState]) -> list[LoadMeasured]:
    """Return the blocks that count."""
    return [block for process in processes for block in process.load_blocks if not block.discarded]


def levels_of(
    blocks: Sequence[LoadMeasured], load: LoadQuestion, goodput: float | None
) -> tuple[RateLevel, ...]:
    """Return the latency at each rate, lowest rate first; blocks at about one rate are pooled."""
    groups: list[list[LoadMeasured]] = []
    for block in sorted(blocks, key=lambda each: each.rate):
        if groups and block.rate <= groups[-1][0].rate * SAME_RATE:
            groups[-1].append(block)
        else:
            groups.append([block])
    return tuple(_level(group, load, goodput) for group in groups)


def _level(blocks: Sequence[LoadMeasured], load: LoadQuestion, goodput: float | None) -> RateLevel:
    requests = [request for block in blocks for request in block.requests]
    rate = sum(block.rate for block in blocks) / len(blocks)
    met = sum(meets_limits(request, load) for request in requests)
    return RateLevel(
        rate=rate,
        share=rate / goodput if goodput else 0.0,
        requests=len(requests),
        failed=sum(request.failure is not None for request in requests),
        met=met / max(len(requests), 1),
        tokens_per_second=sum(request.output_tokens for request in requests)
        / sum(map(_serving_seconds, blocks)),
        ttft_seconds=_percentiles(request.ttft for request in requests),
        itl_seconds=_percentiles(request.itl for request in requests),
    )


def _serving_seconds(block: LoadMeasured) -> float:
    """Return the seconds in which the tokens of a block were generated.

    Above the capacity a queue is left at the end of the block, and its requests are served later.
    The time of the fastest answer after its first token is not counted: it follows the last
    request of every block.
    """
    answers = [
        (request.at + request.ttft, request.seconds - request.ttft)
        for request in block.requests
        if request.ttft is not None and request.seconds is not None
    ]
    if not answers:
        return block.seconds
    first = min(start for start, _ in answers)
    last = max(start + seconds for start, seconds in answers)
    return max(block.seconds, last - first - min(seconds for _, seconds in answers))


def _percentiles(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p95, p99 = (nearest_rank(known, share) for share in PERCENTILES)
    return p50, p95, p99
