"""Find the greatest request rate at which enough requests meet their limits. Pure.

Goodput is the rate at which the share of requests that miss a limit reaches `1 - share`. Blocks of
requests at given rates are the data. The search brackets the rate and bisects it. The estimate fits
a logistic curve of the missed share over the logarithm of the rate to all blocks, by maximum
likelihood on a grid, and its interval resamples whole blocks, because requests of one block share
a queue.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from advisor.statistics.intervals import HALF_INTERVAL, t_quantile

#: An array of float64; NumPy is imported where it computes.
Array: TypeAlias = Any

#: Factor between two rates while no rate is known that meets the limits, or none that does not.
BRACKET_STEP = 2.0
#: The bracket is left when its ends are within this factor.
NARROW = 1.12
#: Rates that may be tried without one that meets the limits, before the answer is none.
MOST_DESCENTS = 6
#: Points of the grid: of the goodput between the lowest and the highest rate, and of the slope.
RATE_POINTS, SLOPE_POINTS = 240, 24
#: Slopes of the logistic curve over the logarithm of the rate. A queue that is nearly full has a
#: steep one; below the least slope the latency hardly depends on the rate.
LEAST_SLOPE, MOST_SLOPE = 2.0, 80.0
#: The goodput may lie this factor outside of the rates that were tried.
BEYOND = 1.1
#: Shares that a block can have at least and at most: a finite block excludes neither.
LEAST_SHARE = 0.002
DRAWS = 400
TAIL = 0.025
#: Blocks within this factor of the goodput determine it, and count as the sample of the interval.
NEAR = 1.3
#: Fewer near blocks are treated as this many: an interval of two values would have no use.
FEWEST_NEAR = 3


@dataclasses.dataclass(frozen=True)
class LoadBlock:
    """Requests that were sent at one rate, and how many of them met every limit."""

    #: Requests per second.
    rate: float
    met: int
    total: int

    def meets(self, share: float) -> bool:
        """Return whether at least `share` of the requests met the limits."""
        return self.total > 0 and self.met >= share * self.total


@dataclasses.dataclass(frozen=True)
class Goodput:
    """Requests per second with a 95 % interval, and the draws behind it."""

    value: float
    low: float
    high: float
    #: Logarithm of the rate and slope of the fitted curve.
    slope: float
    log_draws: tuple[float, ...]


class GoodputSearch:
    """Bisection of the goodput: ask for a rate, measure a block, record it."""

    def __init__(self, start_rate: float, share: float, most_blocks: int) -> None:
        """Start at `start_rate` requests per second and end after `most_blocks` blocks."""
        if not (start_rate > 0 and 0 < share < 1 and most_blocks >= 1):
            message = "the rate must be positive, the share between 0 and 1, one block at least"
            raise ValueError(message)
        self._share = share
        self._most_blocks = most_blocks
        self._next: float = start_rate
        self.blocks: list[LoadBlock] = []

    @property
    def finished(self) -> bool:
        """Whether the rate is known well enough, or the blocks are used up."""
        if len(self.blocks) >= self._most_blocks:
            return True
        low, high = self._bracket()
        if low is None:
            return len(self.blocks) >= MOST_DESCENTS
        return high is not None and high / low <= NARROW

    def next_rate(self) -> float:
        """Return the rate of the next block."""
        return self._next

    def record(self, block: LoadBlock) -> None:
        """Add a block and choose the next rate."""
        self.blocks.append(block)
        low, high = self._bracket()
        if low is None and high is not None:
            self._next = high / BRACKET_STEP
        elif high is None and low is not None:
            self._next = low * BRACKET_STEP
        elif low is not None and high is not None:
            self._next = math.sqrt(low * high)

    def _bracket(self) -> tuple[float | None, float | None]:
        """Return the highest rate below every failure, and the lowest rate that failed."""
        failed = [block.rate for block in self.blocks if not block.meets(self._share)]
        high = min(failed, default=None)
        met = [
            block.rate
            for block in self.blocks
            if block.meets(self._share) and (high is None or block.rate < high)
        ]
        return max(met, default=None), high


def estimate_goodput(blocks: Sequence[LoadBlock], share: float, seed: int) -> Goodput | None:
    """Return the goodput of these blocks; None where no block met the limits.

    The same blocks and seed give the same result. Draws come from NumPy's `RandomState`, whose
    streams are frozen.
    """
    used = [block for block in blocks if block.total > 0]
    if not any(block.meets(share) for block in used):
        return None
    import numpy as np  # noqa: PLC0415 - slow to import, and most commands measure no load

    rates, slopes, likelihood = _likelihood(used, share)
    stream = np.random.RandomState(seed % 2**32)
    counts = stream.multinomial(len(used), np.full(len(used), 1 / len(used)), size=DRAWS)
    best = np.argmax(likelihood.sum(axis=0))
    value = float(rates[best // SLOPE_POINTS])
    drawn = rates[np.argmax(counts @ likelihood, axis=1) // SLOPE_POINTS]
    drawn = value + _few_blocks_factor(used, value) * (drawn - value)
    low, high = (float(np.quantile(drawn, tail)) for tail in (TAIL, 1 - TAIL))
    return Goodput(
        value=math.exp(value),
        low=math.exp(min(low, value)),
        high=math.exp(max(high, value)),
        slope=float(slopes[best % SLOPE_POINTS]),
        log_draws=tuple(round(float(each), 6) for each in drawn),
    )


def _few_blocks_factor(blocks: Sequence[LoadBlock], value: float) -> float:
    """Return by how much draws from few blocks vary too little.

    It is that of Student's t distribution over the normal one, and of the sample's variance.
    """
    near = sum(abs(math.log(block.rate) - value) <= math.log(NEAR) for block in blocks)
    freedom = max(near, FEWEST_NEAR) - 1
    return t_quantile(1 - TAIL, freedom) / HALF_INTERVAL * math.sqrt((freedom + 1) / freedom)


def compare_processes(
    first: Sequence[LoadBlock], second: Sequence[LoadBlock], share: float, slope: float
) -> tuple[float, float]:
    """Return the log ratio of the goodputs of two processes, and the variance that blocks cause.

    Both have the slope of all blocks. Misses come in groups, as long as a queue lasts; by how much
    their number varies more than that of independent requests is estimated from both processes.
    """
    both = [*first, *second]
    logs, information, residuals = [], [], 0.0
    for blocks in (first, second):
        found = _log_goodput_at_slope(blocks, share, slope, both)
        missed = [_missed_share(block.rate, found, slope, share) for block in blocks]
        variances = [
            block.total * each * (1 - each) for block, each in zip(blocks, missed, strict=True)
        ]
        residuals += sum(
            (block.total - block.met - block.total * each) ** 2 / variance
            for block, each, variance in zip(blocks, missed, variances, strict=True)
        )
        logs.append(found)
        information.append(slope**2 * sum(variances))
    overdispersion = max(1.0, residuals / max(len(both) - 2, 1))
    return logs[1] - logs[0], overdispersion * sum(1 / each for each in information)


def _missed_share(rate: float, log_goodput: float, slope: float, share: float) -> float:
    """Return the share of missed requests that the curve gives at a rate."""
    place = math.log((1 - share) / share) + slope * (math.log(rate) - log_goodput)
    return min(max(1 / (1 + math.exp(-place)), LEAST_SHARE), 1 - LEAST_SHARE)


def _log_goodput_at_slope(
    blocks: Sequence[LoadBlock], share: float, slope: float, among: Sequence[LoadBlock]
) -> float:
    """Return the logarithm of the goodput of these blocks, on the grid of `among`."""
    import numpy as np  # noqa: PLC0415 - as above

    rates, slopes, likelihood = _likelihood(blocks, share, among)
    nearest = int(np.argmin(np.abs(np.log(slopes) - math.log(slope))))
    return float(rates[int(np.argmax(likelihood.sum(axis=0)[nearest::SLOPE_POINTS]))])


def _likelihood(
    blocks: Sequence[LoadBlock], share: float, among: Sequence[LoadBlock] = ()
) -> tuple[Array, Array, Array]:
    """Return the grid of log rates, that of slopes, and the log likelihood of each block.

    The likelihood is `(blocks, rates times slopes)`, with the slopes inside.
    """
    import numpy as np  # noqa: PLC0415 - as above

    tried = [block.rate for block in among or blocks]
    rates = np.linspace(math.log(min(tried) / BEYOND), math.log(max(tried) * BEYOND), RATE_POINTS)
    slopes = np.geomspace(LEAST_SLOPE, MOST_SLOPE, SLOPE_POINTS)
    offset = math.log((1 - share) / share)
    places = np.array([math.log(block.rate) for block in blocks])[:, None, None]
    missed = 1 / (1 + np.exp(-(offset + slopes * (places - rates[:, None]))))
    missed = np.clip(missed, LEAST_SHARE, 1 - LEAST_SHARE)
    met = np.array([block.met for block in blocks])[:, None, None]
    total = np.array([block.total for block in blocks])[:, None, None]
    likelihood = (total - met) * np.log(missed) + met * np.log1p(-missed)
    return rates, slopes, likelihood.reshape(len(blocks), -1)
