"""Find the greatest request rate at which enough requests meet their limits. Pure.

Goodput is the rate at which the share of requests that miss a limit reaches `1 - share`. Blocks of
requests at given rates are the data. The estimate fits a logistic curve of the missed share over
the logarithm of the rate, by maximum likelihood on a grid. Blocks count by their distance from it,
because the missed share of a queue is no logistic curve over all rates. Its interval resamples
whole blocks, because requests of one block share a queue, and the requests of each, because a block
may have few of them.

A disturbance of the host can slow a server for a whole block. The deviance of each block is
therefore bounded in the fit, as in a truncated likelihood, so that one block that contradicts the
others does not decide.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

#: An array of float64; NumPy is imported where it computes.
Array: TypeAlias = Any

#: Points of the grid: of the goodput between the lowest and the highest rate, and of the slope.
RATE_POINTS, SLOPE_POINTS = 240, 24
#: Slopes of the logistic curve over the logarithm of the rate. A queue that is nearly full has a
#: steep one; below the least slope the latency hardly depends on the rate.
LEAST_SLOPE, MOST_SLOPE = 3.0, 80.0
#: The goodput may lie these factors below and above the rates that were tried.
BELOW, ABOVE = 3.0, 1.1
#: Shares that a block can have least and most: a finite block excludes neither.
LEAST_SHARE = 0.002
#: Misses of a group have at most so many requests that met the limits between them.
SEPARATED = 5
#: Groups of misses that are added to all blocks together.
ADDED_GROUPS = 0.35
#: Variance of the misses of a block, in mean sizes of a group times that of independent misses.
SPREAD = 1.5
#: Factor on the interval of few resampled blocks. This and the two above are from simulated queues.
WIDER = 1.2
#: Least parameter of a distribution of shares.
LEAST_COUNT = 0.01
#: A block counts by the normal density of the logarithm of its rate over the goodput, with this
#: standard deviation. Whether it is near is found in so many passes.
NEAR, PASSES = 0.3, 5
#: Greatest half deviance of a block in the fit, in mean sizes of a group. From simulated queues
#: with slowed blocks: a lower bound would raise the estimate of queues without them.
MOST_DEVIANCE = 8.0
DRAWS = 400
TAIL = 0.025


@dataclasses.dataclass(frozen=True)
class LoadBlock:
    """Requests that were sent at one rate, and how many of them met every limit."""

    #: Requests per second.
    rate: float
    met: int
    total: int
    #: Groups of misses, see `count_groups`; None where each request missed alone.
    groups: int | None = None

    @property
    def missed(self) -> int:
        """Requests that missed a limit."""
        return self.total - self.met

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


def count_groups(missed: Sequence[bool]) -> int:
    """Return the number of groups of missed requests, from whether each request missed, in order.

    At most `SEPARATED` requests between two misses of a group met the limits.
    """
    places = [place for place, each in enumerate(missed) if each]
    later = sum(b - a > SEPARATED + 1 for a, b in itertools.pairwise(places))
    return later + bool(places)


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
    met = np.array([block.met for block in used], dtype=float)
    missed = np.array([block.missed for block in used], dtype=float)
    group = group_size(used)
    best, weights, added = _fit(curve, met, missed, group)
    stream = np.random.RandomState(seed % 2**32)
    counts = stream.multinomial(len(used), np.full(len(used), 1 / len(used)), size=DRAWS)
    # The information of a block is its number of groups: misses within one are dependent.
    shares = stream.beta(
        met / (SPREAD * group) + LEAST_COUNT,
        missed / (SPREAD * group) + LEAST_COUNT,
        size=counts.shape,
    )
    weighted = counts * weights * (met + missed)
    more = weights * added * stream.exponential(1.0, size=(DRAWS, 1))
    likeliest = np.argmax(
        curve.log_likelihood(weighted * shares, weighted * (1 - shares) + more), axis=1
    )
    value = float(curve.rates[best // SLOPE_POINTS])
    drawn = curve.rates[likeliest // SLOPE_POINTS]
    low, high = (
        value + WIDER * (float(np.quantile(drawn, tail)) - value) for tail in (TAIL, 1 - TAIL)
    )
    return Goodput(
        value=math.exp(value),
        low=math.exp(min(low, value)),
        high=math.exp(max(high, value)),
        slope=float(curve.slopes[best % SLOPE_POINTS]),
    )


def group_size(blocks: Sequence[LoadBlock]) -> float:
    """Return how many misses a group has on average; 1 where each request missed alone.

    Blocks of which most requests missed do not count: their groups are as long as the block.
    """
    few = [block for block in blocks if 0 < block.missed < block.met]
    groups = sum(block.missed if block.groups is None else block.groups for block in few)
    return sum(block.missed for block in few) / groups if groups else 1.0


def _fit(curve: _MissedCurve, met: Array, missed: Array, group: float) -> tuple[int, Array, Array]:
    """Return the best place of the grid, the weights of blocks, and misses added to them.

    The weight of a block is smaller the farther its rate is from the goodput, and the more its
    deviance exceeds the greatest one that counts.

    Misses come in groups. Most series of blocks have fewer groups than the mean, and a few have
    many more, so the median of the estimate would be too high. A third of a group is added to all
    blocks together, in proportion to their information: the median is then near the truth.
    """
    import numpy as np  # noqa: PLC0415 - as above

    deviance, most = curve.deviance(met, missed), MOST_DEVIANCE * group
    bounded = np.minimum(deviance, most)
    best, added = int(np.argmin(bounded.sum(axis=0))), np.zeros(len(met))
    for _ in range(PASSES):
        near = _nearness(curve.log_rates, curve.rates[best // SLOPE_POINTS])
        log_variances = curve.log_missed[:, best] + curve.log_met[:, best]
        information = near * (met + missed) * np.exp(log_variances)
        added = ADDED_GROUPS * group * information / information.sum()
        best = int(np.argmin(near @ bounded - (near * added) @ curve.log_missed))
    trusted = most / np.maximum(deviance[:, best], most)
    return best, _nearness(curve.log_rates, curve.rates[best // SLOPE_POINTS]) * trusted, added


def _nearness(log_rates: Array, log_goodput: float) -> Array:
    """Return how much blocks count by the distance of their rates from the goodput."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.exp(-(((log_rates - log_goodput) / NEAR) ** 2) / 2)


def compare_processes(
    first: Sequence[LoadBlock], second: Sequence[LoadBlock], share: float, slope: float
) -> tuple[float, float]:
    """Return the log ratio of the goodputs of two processes, and the variance that blocks cause.

    Both have the slope of all blocks. Misses come in groups, as long as a queue lasts; by how much
    their number varies more than that of independent requests is estimated from both processes.
    """
    import numpy as np  # noqa: PLC0415 - as above

    logs, information, residuals, counted = [], [], 0.0, 0.0
    for blocks in (first, second):
        found = _log_goodput_at_slope(blocks, share, slope, [*first, *second])
        rates = np.array([block.rate for block in blocks])
        total = np.array([block.total for block in blocks], dtype=float)
        missed = np.array([_missed_share(rate, found, slope, share) for rate in rates])
        weights, variances = _nearness(np.log(rates), found), total * missed * (1 - missed)
        differences = np.array([block.missed for block in blocks]) - total * missed
        residuals += float(np.sum(weights * differences**2 / variances))
        counted += float(np.sum(weights))
        logs.append(found)
        information.append(slope**2 * float(np.sum(weights * variances)))
    overdispersion = max(1.0, residuals / max(counted - 2, 1))
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
    missed = np.array([block.missed for block in blocks], dtype=float)
    weights, found = np.ones(len(blocks)), 0.0
    for _ in range(PASSES):
        likelihood = curve.log_likelihood(weights * met, weights * missed)[nearest::SLOPE_POINTS]
        found = float(curve.rates[int(np.argmax(likelihood))])
        weights = _nearness(curve.log_rates, found)
    return found


@dataclasses.dataclass(frozen=True)
class _MissedCurve:
    """Shares of missed requests at the rates of blocks, by goodput and slope."""

    #: The grids of log rates and of slopes.
    rates: Array
    slopes: Array
    #: Logarithms of the rates of the blocks.
    log_rates: Array
    #: Logarithms of the share that misses and of the one that meets the limits,
    #: `(blocks, rates times slopes)`, with the slopes inside.
    log_missed: Array
    log_met: Array

    def log_likelihood(self, met: Array, missed: Array) -> Array:
        """Return `(..., rates times slopes)` for requests `(..., blocks)`."""
        return met @ self.log_met + missed @ self.log_missed

    def deviance(self, met: Array, missed: Array) -> Array:
        """Return `(blocks, rates times slopes)`: half the deviance of each block from the curve."""
        import numpy as np  # noqa: PLC0415 - as above

        shares = np.clip(missed / (met + missed), LEAST_SHARE, 1 - LEAST_SHARE)
        greatest = met * np.log1p(-shares) + missed * np.log(shares)
        fitted = met[:, None] * self.log_met + missed[:, None] * self.log_missed
        return np.maximum(greatest[:, None] - fitted, 0.0)


def _missed_curve(
    blocks: Sequence[LoadBlock], share: float, among: Sequence[LoadBlock] = ()
) -> _MissedCurve:
    """Return the curve at the rates of `blocks`, on the grid of the blocks `among`."""
    import numpy as np  # noqa: PLC0415 - as above

    tried = [block.rate for block in among or blocks]
    rates = np.linspace(math.log(min(tried) / BELOW), math.log(max(tried) * ABOVE), RATE_POINTS)
    slopes = np.geomspace(LEAST_SLOPE, MOST_SLOPE, SLOPE_POINTS)
    offset = math.log((1 - share) / share)
    log_rates = np.array([math.log(block.rate) for block in blocks])
    places = log_rates[:, None, None]
    missed = 1 / (1 + np.exp(-(offset + slopes * (places - rates[:, None]))))
    missed = np.clip(missed, LEAST_SHARE, 1 - LEAST_SHARE).reshape(len(blocks), -1)
    return _MissedCurve(rates, slopes, log_rates, np.log(missed), np.log1p(-missed))
