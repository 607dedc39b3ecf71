"""Traces of requests: when each is sent, and how long its prompt and its text are. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain.question import RequestLengths

#: Most vocabularies start with padding and the begin and end of a text; prompts have none of them.
FIRST_ORDINARY_TOKEN = 3


class TracedRequest(NamedTuple):
    """One request of a trace."""

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
