"""Blocks of load, and curves of the share of requests that miss a limit by the rate.

A curve has two parameters, the goodput and the slope. `MissedCurves` has one curve for each cell of
a grid of both, so that fits are searches in the grid.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.decide.intervals import Array, nearest_rank, np
from advisor.domain.question import LoadQuestion
from advisor.domain.run_events import LoadMeasured
from advisor.domain.run_state import ProcessState
from advisor.domain.serving import RateLevel, ServedRequest

#: Most requests that met the limits between two misses of one group.
SEPARATED = 5
#: Points of the grid: of the goodput between the lowest and the highest rate, and of the slope.
GOODPUT_POINTS, SLOPE_POINTS = 240, 24
#: Slopes of the logistic curve over the logarithm of the rate. A queue that is nearly full has a
#: steep one; below the least slope the latency hardly depends on the rate.
LEAST_SLOPE, MOST_SLOPE = 3.0, 80.0
#: The goodput may lie these factors below and above the rates that were tried.
BELOW, ABOVE = 3.0, 1.1
#: Shares that a block can have least and most: a finite block excludes neither.
LEAST_SHARE = 0.002
#: A block counts by the normal density of the logarithm of its rate over the goodput, with this
#: standard deviation.
NEAR_DEVIATION = 0.3


@dataclasses.dataclass(frozen=True)
class LoadCounts:
    """How many requests of a block, which were sent at one rate, met every limit."""

    #: Requests per second.
    rate: float
    met: int
    total: int
    #: Groups of misses, see `count_groups`.
    groups: int

    @property
    def missed(self) -> int:
        return self.total - self.met

    def meets(self, share: float) -> bool:
        return self.total > 0 and self.met >= share * self.total


def count_groups(missed: Sequence[bool]) -> int:
    """Return the number of groups of missed requests, from whether each request missed, in order.

    At most `SEPARATED` requests between two misses of a group met the limits.
    """
    misses = [index for index, each in enumerate(missed) if each]
    return sum(b - a > SEPARATED + 1 for a, b in itertools.pairwise(misses)) + bool(misses)


def group_size(blocks: Sequence[LoadCounts]) -> float:
    """Return how many misses a group has on average; 1 where each request missed alone.

    Blocks with mostly missed requests do not count: their groups are as long as the block.
    """
    few = [block for block in blocks if 0 < block.missed < block.met]
    groups = sum(block.groups for block in few)
    return sum(block.missed for block in few) / groups if groups else 1.0


@dataclasses.dataclass(frozen=True)
class MissedCurves:
    """Shares of missed requests at the rates of blocks, for each cell of the grid."""

    #: The grid: `(GOODPUT_POINTS,)` logarithms of the goodput, and `(SLOPE_POINTS,)` slopes. The
    #: cells are all pairs, those of one goodput next to each other.
    log_goodputs: Array
    slopes: Array
    #: Logarithms of the rates of the blocks, `(blocks,)`.
    log_rates: Array
    #: Logarithms of the share that misses and of the one that meets the limits, `(blocks, cells)`.
    log_missed: Array
    log_met: Array

    @classmethod
    def at_rates(
        cls, blocks: Sequence[LoadCounts], share: float, among: Sequence[LoadCounts] = ()
    ) -> MissedCurves:
        """Return the curves at the rates of `blocks`, on the grid of the blocks `among`."""
        tried = [block.rate for block in among or blocks]
        lowest, highest = math.log(min(tried) / BELOW), math.log(max(tried) * ABOVE)
        log_goodputs = np.linspace(lowest, highest, GOODPUT_POINTS)
        slopes = np.geomspace(LEAST_SLOPE, MOST_SLOPE, SLOPE_POINTS)
        log_rates = np.array([math.log(block.rate) for block in blocks])
        distances = log_rates[:, None, None] - log_goodputs[:, None]
        missed = missed_share(distances, slopes, share).reshape(len(blocks), -1)
        return cls(log_goodputs, slopes, log_rates, np.log(missed), np.log1p(-missed))

    def log_goodput(self, cells: Any) -> Any:  # noqa: ANN401 - NumPy is not imported here
        """Return the logarithm of the goodput of a cell, or of each of an array of cells."""
        return self.log_goodputs[cells // SLOPE_POINTS]

    def slope(self, cell: int) -> float:
        return float(self.slopes[cell % SLOPE_POINTS])

    def cells_of_slope(self, slope: float) -> slice:
        """Return the cells with the slope of the grid that is nearest to `slope`."""
        nearest = int(np.argmin(np.abs(np.log(self.slopes) - math.log(slope))))
        return slice(nearest, None, SLOPE_POINTS)

    def log_likelihood(self, met: Array, missed: Array) -> Array:
        """Return `(..., cells)` for numbers of requests `(..., blocks)`."""
        return met @ self.log_met + missed @ self.log_missed

    def deviance(self, met: Array, missed: Array) -> Array:
        """Return `(blocks, cells)`: half the deviance of each block, for requests `(blocks,)`."""
        shares = np.clip(missed / (met + missed), LEAST_SHARE, 1 - LEAST_SHARE)
        greatest = met * np.log1p(-shares) + missed * np.log(shares)
        fitted = met[:, None] * self.log_met + missed[:, None] * self.log_missed
        return np.maximum(greatest[:, None] - fitted, 0.0)


def missed_share(distances: Array, slopes: Array, share: float) -> Array:
    """Return the shares at logarithms of the rate over the goodput, where they are `1 - share`."""
    log_odds = math.log((1 - share) / share) + slopes * distances
    return np.clip(1 / (1 + np.exp(-log_odds)), LEAST_SHARE, 1 - LEAST_SHARE)


def nearness(log_rates: Array, log_goodput: float) -> Array:
    """Return `(blocks,)`: how much blocks with these rates count in a fit at a goodput.

    The missed share of a queue is not a logistic curve over all rates.
    """
    return np.exp(-(((log_rates - log_goodput) / NEAR_DEVIATION) ** 2) / 2)


PERCENTILES = (0.5, 0.95, 0.99)
#: Rates within this factor are one level.
SAME_RATE = 1.02


def meets_limits(request: ServedRequest, load: LoadQuestion) -> bool:
    return (
        request.failure is None
        and request.ttft is not None
        and request.ttft <= load.ttft_seconds
        # A text of a single token has no time between tokens.
        and (request.itl is None or request.itl <= load.itl_seconds)
    )


def count_block(measured: LoadMeasured, load: LoadQuestion) -> LoadCounts:
    missed = [not meets_limits(request, load) for request in measured.requests]
    met = len(missed) - sum(missed)
    return LoadCounts(measured.rate, met, len(missed), count_groups(missed))


def valid_blocks(processes: Iterable[ProcessState]) -> list[LoadMeasured]:
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
