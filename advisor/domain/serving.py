"""Servers under load: the rules of `serving.toml`, requests, and what the servers sustained."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Annotated, Literal

import msgspec

from advisor.domain.measurement import Interval
from advisor.domain.question import RequestLengths
from probes.shape import Amount, Count

PositiveShare = Annotated[float, msgspec.Meta(gt=0, le=1)]
PositiveFactor = Annotated[float, msgspec.Meta(gt=0)]


class LengthMix(msgspec.Struct, frozen=True, kw_only=True):
    """A named mix of request lengths, with its source."""

    title: str
    requests: Annotated[tuple[RequestLengths, ...], msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]
    basis: Literal["stated", "ours", "not confirmed"] = "stated"
    because: str = ""


class ServingRules(msgspec.Struct, frozen=True, kw_only=True):
    """`serving.toml`: how the load on a server is made, and named mixes of lengths."""

    #: Seconds of a block by budget; a budget in seconds has that of `quick`.
    block_seconds: dict[str, Annotated[float, msgspec.Meta(gt=0)]]
    least_ttfts: Annotated[float, msgspec.Meta(gt=0)]
    warmup_share: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    gap_seconds: Annotated[float, msgspec.Meta(ge=0)]
    most_blocks: Annotated[int, msgspec.Meta(ge=1)]
    least_misses: Annotated[float, msgspec.Meta(ge=0)]
    most_block_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Requests at once and seconds of the closed loops before the load.
    closed_loop_concurrencies: tuple[Annotated[int, msgspec.Meta(ge=1)], ...]
    closed_loop_seconds: Annotated[float, msgspec.Meta(gt=0)]
    closed_loop_gain: Annotated[float, msgspec.Meta(ge=1)]
    #: Shares of the probed rate that the search tries first.
    ladder: Annotated[tuple[PositiveFactor, ...], msgspec.Meta(min_length=1)]
    far_below: Annotated[float, msgspec.Meta(gt=0)]
    #: 0: no text is checked while the load runs.
    sampled_share: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    #: Shares of the goodput that the search found.
    repeat_rates: Annotated[tuple[PositiveFactor, ...], msgspec.Meta(min_length=1)]
    late_ttft_share: PositiveShare
    most_late_share: PositiveShare
    generator_share: PositiveShare
    request_seconds: Annotated[float, msgspec.Meta(gt=0)]
    start_seconds: Annotated[float, msgspec.Meta(gt=0)]
    default_mix: str
    mixes: dict[str, LengthMix]
    source: Annotated[str, msgspec.Meta(min_length=1)]

    def seconds_of_block(self, budget: str, ttft_seconds: float) -> float:
        seconds = self.block_seconds.get(budget, self.block_seconds["quick"])
        return max(seconds, self.least_ttfts * ttft_seconds)

    def least_requests(self, share: float) -> int:
        """Return how many requests a block has at least, with those of its warm-up.

        `least_misses` of those that count may then miss the limits.
        """
        counted = self.least_misses / (1 - share)
        return max(1, math.ceil(round(counted / (1 - self.warmup_share), 6)))


def divide_processors(usable: Collection[int], share: float) -> tuple[set[int], set[int]]:
    """Return the server's, and `share` of them for the load generator; a single one is for both."""
    ordered = sorted(usable)
    generator = max(1, int(len(ordered) * share))
    return set(ordered[:-generator] or ordered), set(ordered[-generator:])


class ServedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a server, as the load generator saw it; null for what a failure left out."""

    #: When it was to be sent, in seconds of its block, and how much later it was sent.
    at: Amount
    late: Amount
    #: Seconds from the time at which it was due to its first token, and to its end.
    ttft: Amount | None = None
    seconds: Amount | None = None
    #: Mean time between its later tokens.
    itl: Amount | None = None
    output_tokens: Count = 0
    #: Why it failed; null for an answer of the length that was asked for.
    failure: str | None = None


class RateLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Latency at one rate of requests: percentiles over all requests that were answered."""

    #: Requests per second, and its share of the goodput.
    rate: float
    share: float
    requests: int
    failed: int
    #: Share of the requests that met both limits.
    met: float
    tokens_per_second: float
    #: 50th, 95th and 99th percentile of the seconds; null where no request was answered.
    ttft_seconds: tuple[float, float, float] | None
    itl_seconds: tuple[float, float, float] | None


class AskedRate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one server sustains the asked rate, and how many equal ones do."""

    rate: float
    #: `open` where the interval of the goodput holds the rate.
    verdict: Literal["met", "not-met", "open"]
    #: Servers that share the rate equally, at the goodput and at the ends of its interval.
    servers: int
    fewest_servers: int
    most_servers: int
    #: Latency at the rate that each of them then has, or a little above it; null where none was
    #: measured.
    level: RateLevel | None = None
    #: Price of all of them per hour; null without a price.
    price_per_hour: float | None = None


class ServedArm(msgspec.Struct, frozen=True, kw_only=True):
    """What one arm's server sustained."""

    arm: str
    #: Greatest rate of requests per second at which enough of them meet the limits; null where no
    #: rate that was tried does.
    goodput: Interval | None
    #: Generated tokens per second at that rate.
    tokens_per_second: float | None
    #: Levels near 50, 80 and 100 % of the goodput, and every other rate that was tried, by rate.
    levels: tuple[RateLevel, ...]
    blocks: int
    #: Blocks in which the generator fell behind.
    discarded: int
    requests: int
    failed: int
    #: Texts that were checked while the load ran.
    texts_checked: int = 0
    #: The command that started the server, as it was measured.
    command: str
    #: Tokens per second with equal prompts in one batch: what the check in one batch would compare.
    batch_tokens_per_second: float | None = None
    #: Price of a million generated tokens at the goodput; null without a price.
    cost_per_million_tokens: float | None = None
    #: Energy of the GPUs for each generated token with the most requests at once that were tried;
    #: null without an energy counter.
    joules_per_token: float | None = None
    #: Null where no rate was asked for, or without a goodput.
    asked: AskedRate | None = None

    def stopped_early(self, share: float) -> bool:
        """Return whether the search ended before a rate at which too few requests met the limits.

        The goodput is then the least that the server sustains.
        """
        return bool(self.levels) and all(level.met >= share for level in self.levels)


class ServingResults(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a run, the best first."""

    arms: tuple[ServedArm, ...]
    #: Standard deviation of the logarithm of the goodput of one process.
    process_deviation: float | None
