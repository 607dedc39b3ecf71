"""Find the greatest request rate at which enough requests meet their limits. Pure.

Goodput is the rate at which the share of requests that miss a limit reaches `1 - share`. Blocks of
requests at given rates are the data. The search tries a ladder of rates and bisects what remains.
The estimate fits a logistic curve of the missed share over the logarithm of the rate to all blocks,
by maximum likelihood on a grid. Its interval resamples whole blocks, because requests of one block
share a queue, and the requests of each, because a block may have few of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

#: An array of float64; NumPy is imported where it computes.
Array: TypeAlias = Any

#: Factors between two rates while no rate is known that meets the limits, or none that does not.
DESCENT, ASCENT = (0.25, 0.5), (1.5, 2.5)
#: The bracket is left when its ends are within this factor; of a coarse search, within the other.
NARROW, COARSE = 1.4, 2.6
#: Rates that may be tried without one that meets the limits, before the answer is none; and those
#: of a coarse search.
MOST_DESCENTS, MOST_COARSE_DESCENTS = 6, 3
#: Points of the grid: of the goodput between the lowest and the highest rate, and of the slope.
RATE_POINTS, SLOPE_POINTS = 240, 24
#: Slopes of the logistic curve over the logarithm of the rate. A queue that is nearly full has a
#: steep one; below the least slope the latency hardly depends on the rate.
LEAST_SLOPE, MOST_SLOPE = 2.0, 80.0
#: The goodput may lie these factors below and above the rates that were tried.
BELOW, ABOVE = 3.0, 1.1
#: Shares that a block can have least and most: a finite block excludes neither.
LEAST_SHARE = 0.002
#: A block says about as much more of each outcome than it has (Jeffreys' prior).
HALF_REQUEST = 0.5
DRAWS = 400
TAIL = 0.025


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
    """Requests per second with a 95 % interval, and the slope of the fitted curve."""

    value: float
    low: float
    high: float
    slope: float


class GoodputSearch:
    """Search of the goodput: ask for rates, measure a block at each, record them."""

    def __init__(
        self, start_rate: float, share: float, most_blocks: int, ladder: Sequence[float] = (1.0,)
    ) -> None:
        """Start at the rates `ladder` times `start_rate` requests per second.

        The search ends after `most_blocks` blocks at the latest. A coarse search uses every second
        rate of the ladder.
        """
        if not (start_rate > 0 and 0 < share < 1 and most_blocks >= 1 and ladder):
            message = "the rate must be positive, the share between 0 and 1, one block at least"
            raise ValueError(message)
        self._share = share
        self._most_blocks = most_blocks
        self._ladder = tuple(start_rate * each for each in sorted(ladder))
        self.blocks: list[LoadBlock] = []

    def is_finished(self, *, coarse: bool = False) -> bool:
        """Return whether the rate is known well enough, or the blocks are used up."""
        if len(self.blocks) >= self._most_blocks:
            return True
        low, high = self._bracket()
        if low is None:
            return len(self.blocks) >= (MOST_COARSE_DESCENTS if coarse else MOST_DESCENTS)
        return high is not None and high / low <= (COARSE if coarse else NARROW)

    def next_rates(self, *, coarse: bool = False) -> tuple[float, ...]:
        """Return the rates of the next blocks, in ascending order: a queue grows in the last one.

        A coarse search asks for few.
        """
        low, high = self._bracket()
        if low is not None and high is not None:
            rates: tuple[float, ...] = (math.sqrt(low * high),)
        elif high is not None:
            rates = tuple(high * factor for factor in DESCENT[coarse:])
        elif low is not None:
            rates = tuple(low * factor for factor in ASCENT[coarse:])
        else:
            rates = self._ladder[:: 2 if coarse else 1]
        return rates[: self._most_blocks - len(self.blocks)]

    def record(self, block: LoadBlock) -> None:
        """Add a block."""
        self.blocks.append(block)

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

    curve = _missed_curve(used, share)
    stream = np.random.RandomState(seed % 2**32)
    counts = stream.multinomial(len(used), np.full(len(used), 1 / len(used)), size=DRAWS)
    met = np.array([block.met for block in used], dtype=float)
    total = np.array([block.total for block in used], dtype=float)
    shares = stream.beta(met + HALF_REQUEST, total - met + HALF_REQUEST, size=counts.shape)
    best = int(np.argmax(curve.log_likelihood(met, total)))
    value = float(curve.rates[best // SLOPE_POINTS])
    likeliest = np.argmax(curve.log_likelihood(counts * shares * total, counts * total), axis=1)
    drawn = curve.rates[likeliest // SLOPE_POINTS]
    low, high = (float(np.quantile(drawn, tail)) for tail in (TAIL, 1 - TAIL))
    return Goodput(
        value=math.exp(value),
        low=math.exp(min(low, value)),
        high=math.exp(max(high, value)),
        slope=float(curve.slopes[best % SLOPE_POINTS]),
    )


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

    curve = _missed_curve(blocks, share, among)
    nearest = int(np.argmin(np.abs(np.log(curve.slopes) - math.log(slope))))
    met = np.array([block.met for block in blocks], dtype=float)
    total = np.array([block.total for block in blocks], dtype=float)
    likelihood = curve.log_likelihood(met, total)[nearest::SLOPE_POINTS]
    return float(curve.rates[int(np.argmax(likelihood))])


@dataclasses.dataclass(frozen=True)
class _MissedCurve:
    """Shares of missed requests at the rates of blocks, by goodput and slope."""

    #: The grids of log rates and of slopes.
    rates: Array
    slopes: Array
    #: Logarithms of the share that misses and of the one that meets the limits,
    #: `(blocks, rates times slopes)`, with the slopes inside.
    log_missed: Array
    log_met: Array

    def log_likelihood(self, met: Array, total: Array) -> Array:
        """Return `(..., rates times slopes)` for requests `(..., blocks)`."""
        return met @ self.log_met + (total - met) @ self.log_missed


def _missed_curve(
    blocks: Sequence[LoadBlock], share: float, among: Sequence[LoadBlock] = ()
) -> _MissedCurve:
    """Return the curve at the rates of `blocks`, on the grid of the blocks `among`."""
    import numpy as np  # noqa: PLC0415 - as above

    tried = [block.rate for block in among or blocks]
    rates = np.linspace(math.log(min(tried) / BELOW), math.log(max(tried) * ABOVE), RATE_POINTS)
    slopes = np.geomspace(LEAST_SLOPE, MOST_SLOPE, SLOPE_POINTS)
    offset = math.log((1 - share) / share)
    places = np.array([math.log(block.rate) for block in blocks])[:, None, None]
    missed = 1 / (1 + np.exp(-(offset + slopes * (places - rates[:, None]))))
    missed = np.clip(missed, LEAST_SHARE, 1 - LEAST_SHARE).reshape(len(blocks), -1)
    return _MissedCurve(rates, slopes, np.log(missed), np.log1p(-missed))
