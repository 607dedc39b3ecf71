"""Blocks of requests: the trace that is planned, and what AIPerf recorded of each request."""

from __future__ import annotations

import math
import pathlib
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from advisor.domain.question import RequestLengths
from advisor.domain.serving import ServedRequest
from advisor.probing.cgroups import NANOSECONDS
from advisor.probing.nvml import MILLI
from probes.protocol import FIRST_ORDINARY_TOKEN


class TracedRequest(NamedTuple):
    #: Seconds after the start of its block.
    at: float
    lengths: RequestLengths


class PlannedBlock(NamedTuple):
    """Requests that arrive at one rate for some time."""

    rate: float
    seconds: float
    requests: tuple[TracedRequest, ...]


class BlockLimits(NamedTuple):
    """How long a block is: until it has lasted `seconds` and has `least` requests.

    It ends after `most_seconds` in any case.
    """

    seconds: float
    least: int = 1
    most_seconds: float = math.inf


def plan_block(
    seed: int, number: int, rate: float, limits: BlockLimits, lengths: Sequence[RequestLengths]
) -> PlannedBlock:
    """Return block `number`: Poisson arrivals at `rate`, one request at least.

    The same seed and number give the same sequence of random intervals and lengths at every rate,
    so all arms get the same trace.
    """
    stream = random.Random(f"{seed}/{number}")  # noqa: S311 - a trace, not a secret
    requests: list[TracedRequest] = []
    at, most_seconds = 0.0, max(limits.seconds, limits.most_seconds)
    while True:
        at += stream.expovariate(1.0) / rate
        chosen = lengths[stream.randrange(len(lengths))]
        is_long = at >= limits.seconds and len(requests) >= limits.least
        if requests and (is_long or at >= most_seconds):
            is_extended = requests[-1].at > limits.seconds
            seconds = min(at, most_seconds) if is_extended else limits.seconds
            return PlannedBlock(rate, seconds, tuple(requests))
        requests.append(TracedRequest(at, chosen))


def random_prompt(stream: random.Random, tokens: int, vocabulary: int) -> list[int]:
    """Return ordinary tokens; prompts share no prefix, so prefix caches are of no use."""
    return [stream.randrange(FIRST_ORDINARY_TOKEN, vocabulary) for _ in range(tokens)]


class RecordMetadata(msgspec.Struct, frozen=True):
    """Which request a record is of, and when it was sent."""

    conversation_id: str
    request_start_ns: int


class Record(msgspec.Struct, frozen=True):
    """The part of a line of AIPerf's records that is used; times are in milliseconds."""

    metadata: RecordMetadata
    metrics: dict[str, dict[str, Any]] = {}
    error: dict[str, Any] | None = None

    def figure(self, name: str) -> float | None:
        """Return a figure of the request; lists, as of all intervals, are not used."""
        found = self.metrics.get(name, {}).get("value")
        return found if isinstance(found, (int, float)) else None


class GeneratorError(Exception):
    """The load generator gave no records; the message says why."""


def read_records(file: pathlib.Path) -> list[Record]:
    """Return AIPerf's records, none without a file; raise `GeneratorError` for unreadable ones."""
    try:
        return [msgspec.json.decode(line, type=Record) for line in file.read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as problem:
        raise GeneratorError(f"its records cannot be read: {problem}") from problem


def assign_records(
    records: Sequence[Record], blocks: Sequence[PlannedBlock], starts: Sequence[float]
) -> list[tuple[ServedRequest, ...]]:
    """Return the requests of each block.

    AIPerf does not say when its schedule began, so the earliest request relative to the schedule
    counts as punctual. A request without a record has failed.
    """
    by_number = {record.metadata.conversation_id: record for record in records}
    scheduled = [
        (start + request.at, request.at, index)
        for index, (start, block) in enumerate(zip(starts, blocks, strict=False))
        for request in block.requests
    ]
    sent = {
        number: record.metadata.request_start_ns * NANOSECONDS - scheduled[number][0]
        for number in range(len(scheduled))
        if (record := by_number.get(str(number))) is not None
    }
    begin = min(sent.values(), default=0.0)
    found: list[list[ServedRequest]] = [[] for _ in blocks]
    for number, (_, at, index) in enumerate(scheduled):
        late = max(sent[number] - begin, 0.0) if number in sent else 0.0
        found[index].append(_served(by_number.get(str(number)), at, late))
    return [tuple(each) for each in found]


def _served(record: Record | None, at: float, late: float) -> ServedRequest:
    """Return one request; the time that it was sent too late counts as waiting."""
    tokens, ttft, whole, itl = 0, None, None, None
    if record is None:
        failure = "it was not answered before the load generator ended"
    elif record.error is not None:
        failure = str(record.error.get("message") or record.error)[:200]
    else:
        failure = "its answer has no tokens"
        tokens = int(record.figure("output_sequence_length") or 0)
        ttft, whole = record.figure("time_to_first_token"), record.figure("request_latency")
        itl = record.figure("inter_token_latency")
    if ttft is None or whole is None or tokens == 0:
        return ServedRequest(at=at, late=late, failure=failure)
    return ServedRequest(
        at=at,
        late=late,
        ttft=late + ttft * MILLI,
        seconds=late + whole * MILLI,
        itl=None if itl is None else itl * MILLI,
        output_tokens=tokens,
    )
