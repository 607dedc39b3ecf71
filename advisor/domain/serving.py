"""Servers under load: the rules of `serving.toml`, requests, and what the servers sustained."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.domain.bounds import Amount, Count
from advisor.domain.interval import Interval
from advisor.domain.question import RequestLengths

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class LengthMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named mix of request lengths, with its source."""

    title: str
    requests: Annotated[tuple[RequestLengths, ...], msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]
    basis: Literal["stated", "ours", "not confirmed"] = "stated"
    because: str = ""


class ServingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`serving.toml`: how the load on a server is made, and named mixes of lengths."""

    #: Seconds of a block by budget; a budget in seconds has that of `quick`.
    block_seconds: dict[str, Annotated[float, msgspec.Meta(gt=0)]]
    least_ttfts: Annotated[float, msgspec.Meta(gt=0)]
    lead_share: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    gap_seconds: Annotated[float, msgspec.Meta(ge=0)]
    most_blocks: Annotated[int, msgspec.Meta(ge=1)]
    #: Shares of the goodput that the search found.
    repeat_rates: Annotated[tuple[Share, ...], msgspec.Meta(min_length=1)]
    late_share: Share
    most_late: Share
    generator_share: Share
    composed_batch_sizes: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
    request_seconds: Annotated[float, msgspec.Meta(gt=0)]
    start_seconds: Annotated[float, msgspec.Meta(gt=0)]
    default_lengths: str
    lengths: dict[str, LengthMix]
    source: Annotated[str, msgspec.Meta(min_length=1)]

    def seconds_of_block(self, budget: str, ttft_seconds: float) -> float:
        """Return the seconds in which the requests of one block arrive."""
        seconds = self.block_seconds.get(budget, self.block_seconds["quick"])
        return max(seconds, self.least_ttfts * ttft_seconds)


def generator_processors(usable: int, share: float) -> int:
    """Return how many of the `usable` processors the load generator has, one at least."""
    return max(1, int(usable * share))


def server_processors(usable: int, share: float) -> int:
    """Return how many processors remain for the server; with a single one they share it."""
    return max(1, usable - generator_processors(usable, share))


class ServedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a server, as the load generator saw it; null for what a failure left out."""

    #: When it was to be sent, in seconds of its block, and how much later it was sent.
    at: Amount
    late: Amount
    #: From when it was to be sent to its first token, and to its end.
    ttft: Amount | None
    seconds: Amount | None
    #: Mean time between its later tokens.
    itl: Amount | None
    output_tokens: Count
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
    #: The command that started the server, as it was measured.
    command: str
    #: Tokens per second with equal prompts in one batch: what the batch probe would compare.
    batch_tokens_per_second: float | None = None
    #: Price of a million generated tokens at the goodput; null without a price.
    cost_per_million_tokens: float | None = None


class ServingResults(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a run, the best first."""

    arms: tuple[ServedArm, ...]
    #: The arm with the most tokens per second with equal prompts in one batch.
    batch_best: str | None
    #: Standard deviation of the logarithm of the goodput of one process.
    process_deviation: float | None
