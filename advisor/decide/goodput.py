"""Find the greatest request rate at which enough requests meet their limits.

Goodput is the rate at which the share of requests that miss a limit reaches `1 - share`. Blocks of
requests at given rates are the data. The estimate fits a logistic curve of the missed share over
the logarithm of the rate, by maximum likelihood on a grid (`load_blocks`). Its interval resamples
whole blocks, because requests of one block share a queue, and the requests of each, because a block
may have few of them.

A disturbance of the host can slow a server for a whole block. The deviance of each block is
therefore bounded in the fit, as in a truncated likelihood, so that one block that contradicts the
others does not decide.

The search tries a ladder of rates and bisects what remains. A rate that failed below one that met
the limits is measured again first: a disturbance may have slowed the server during one block.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from advisor.decide.intervals import TAIL, Array, np
from advisor.decide.load_blocks import LoadCounts, MissedCurves, group_size, missed_share, nearness
from advisor.domain.measurement import Interval

#: Groups of misses that are added to all blocks together.
ADDED_GROUPS = 0.35
#: Variance of the misses of a block, in mean sizes of a group times that of independent misses.
SPREAD = 1.5
#: Factor on the interval of few resampled blocks. This and the two above are from simulated queues.
WIDER = 1.2
#: Least parameter of a distribution of shares.
LEAST_COUNT = 0.01
#: Number of passes that determine how near blocks are to the goodput.
PASSES = 5
#: Greatest half deviance of a block in the fit, in mean sizes of a group. From simulated queues
#: with slowed blocks: a lower bound would raise the estimate of queues without them.
MOST_DEVIANCE = 8.0
DRAWS = 400
#: Factors between two rates while no rate is known that meets the limits, or none that does not.
DESCENT, COARSE_DESCENT, ASCENT = (0.25, 0.5), (0.25,), (1.5, 2.5)
#: The bracket is left when its ends are within this factor; of a coarse search, within the other.
NARROW, COARSE = 1.4, 2.6
#: Rates below the ladder that are tried before the answer is that none meets the limits; and those
#: of a coarse search. A server that serves one batch after the other may meet the limits only far
#: below its capacity: a request that arrives during a batch waits for its end.
MOST_DESCENTS, MOST_COARSE_DESCENTS = 4, 2


class Goodput(Interval, frozen=True, kw_only=True):
    """Requests per second, and the slope of the fitted curve."""

    low: float
    high: float
    slope: float


@dataclasses.dataclass(frozen=True)
class _Fit:
    """The curve that fits blocks best, and how the blocks count in it."""

    cell: int
    #: `(blocks,)`: smaller the farther a rate is from the goodput, and the more the deviance of a
    #: block exceeds the greatest one that counts.
    weights: Array
    #: `(blocks,)`: misses that are added to those of the block.
    added: Array


def estimate_goodput(blocks: Sequence[LoadCounts], share: float, seed: int) -> Goodput | None:
    """Fit the greatest rate that meets the limits; None if no block met them."""
    used = [block for block in blocks if block.total > 0]
    if not any(block.meets(share) for block in used):
        return None
    curves = MissedCurves.at_rates(used, share)
    met, missed = _counts(used)
    fit = _fit(curves, met, missed, group_size(used))
    value = float(curves.log_goodput(fit.cell))
    drawn = _resample(curves, fit, met, missed, group_size(used), seed)
    low, high = (
        value + WIDER * (float(np.quantile(drawn, tail)) - value) for tail in (TAIL, 1 - TAIL)
    )
    return Goodput(
        value=math.exp(value),
        low=math.exp(min(low, value)),
        high=math.exp(max(high, value)),
        slope=curves.slope(fit.cell),
    )


def _counts(blocks: Sequence[LoadCounts]) -> tuple[Array, Array]:
    """Return the requests that met and that missed the limits, both `(blocks,) float64`."""
    met = np.array([block.met for block in blocks], dtype=float)
    return met, np.array([block.missed for block in blocks], dtype=float)


def _fit(curves: MissedCurves, met: Array, missed: Array, group: float) -> _Fit:
    """Return the fit to requests `(blocks,)`; `group` is the mean size of a group of misses.

    Misses come in groups. Most series of blocks have fewer groups than the mean, and a few have
    many more, so the median of the estimate would be too high. A third of a group is added to all
    blocks together, in proportion to their information: the median is then near the truth.
    """
    deviance, most = curves.deviance(met, missed), MOST_DEVIANCE * group
    bounded = np.minimum(deviance, most)
    cell, added = int(np.argmin(bounded.sum(axis=0))), np.zeros(len(met))
    for _ in range(PASSES):
        near = nearness(curves.log_rates, curves.log_goodput(cell))
        log_variances = curves.log_missed[:, cell] + curves.log_met[:, cell]
        information = near * (met + missed) * np.exp(log_variances)
        added = ADDED_GROUPS * group * information / information.sum()
        cell = int(np.argmin(near @ bounded - (near * added) @ curves.log_missed))
    trusted = most / np.maximum(deviance[:, cell], most)
    near = nearness(curves.log_rates, curves.log_goodput(cell))
    return _Fit(cell, near * trusted, added)


def _resample(
    curves: MissedCurves, fit: _Fit, met: Array, missed: Array, group: float, seed: int
) -> Array:
    """Return the logarithms of the goodputs of `(DRAWS,)` resampled series of blocks.

    `met` and `missed` are requests, `(blocks,)`. Draws come from NumPy's `RandomState`, whose
    streams are frozen.
    """
    stream, count = np.random.RandomState(seed % 2**32), len(met)
    times = stream.multinomial(count, np.full(count, 1 / count), size=DRAWS)
    # The information of a block is its number of groups: misses within one are dependent.
    shares = stream.beta(
        met / (SPREAD * group) + LEAST_COUNT,
        missed / (SPREAD * group) + LEAST_COUNT,
        size=times.shape,
    )
    weighted = times * fit.weights * (met + missed)
    added = fit.weights * fit.added * stream.exponential(1.0, size=(DRAWS, 1))
    likelihood = curves.log_likelihood(weighted * shares, weighted * (1 - shares) + added)
    return curves.log_goodput(np.argmax(likelihood, axis=1))


def compare_processes(
    first: Sequence[LoadCounts], second: Sequence[LoadCounts], share: float, slope: float
) -> tuple[float, float]:
    """Return the log ratio of the goodputs of two processes, and the variance that blocks cause.

    Both have the slope of all blocks. Misses come in groups, as long as a queue lasts; by how much
    their number varies more than that of independent requests is estimated from both processes.
    """
    logs, information, residuals, counted = [], [], 0.0, 0.0
    for blocks in (first, second):
        found = _log_goodput_at_slope(blocks, share, slope, [*first, *second])
        log_rates = np.log([block.rate for block in blocks])
        total = np.array([block.total for block in blocks], dtype=float)
        missed = missed_share(log_rates - found, slope, share)
        weights, variances = nearness(log_rates, found), total * missed * (1 - missed)
        differences = np.array([block.missed for block in blocks]) - total * missed
        residuals += float(np.sum(weights * differences**2 / variances))
        counted += float(np.sum(weights))
        logs.append(found)
        information.append(slope**2 * float(np.sum(weights * variances)))
    overdispersion = max(1.0, residuals / max(counted - 2, 1))
    return logs[1] - logs[0], overdispersion * sum(1 / each for each in information)


def _log_goodput_at_slope(
    blocks: Sequence[LoadCounts], share: float, slope: float, among: Sequence[LoadCounts]
) -> float:
    """Return the logarithm of the goodput of these blocks, on the grid of `among`."""
    curves = MissedCurves.at_rates(blocks, share, among)
    cells = curves.cells_of_slope(slope)
    met, missed = _counts(blocks)
    weights, found = np.ones(len(blocks)), 0.0
    for _ in range(PASSES):
        likelihood = curves.log_likelihood(weights * met, weights * missed)[cells]
        found = float(curves.log_goodputs[int(np.argmax(likelihood))])
        weights = nearness(curves.log_rates, found)
    return found


class GoodputSearch:
    """Search of the goodput: ask for rates, measure a block at each, append it to `blocks`."""

    def __init__(
        self, start_rate: float, share: float, most_blocks: int, ladder: Sequence[float] = (1.0,)
    ) -> None:
        """Start at the rates `ladder` times `start_rate` requests per second.

        The search ends after `most_blocks` blocks at the latest. A coarse search uses every second
        rate of the ladder.
        """
        self._share = share
        self._most_blocks = most_blocks
        self._ladder = tuple(start_rate * each for each in sorted(ladder))
        self.blocks: list[LoadCounts] = []

    def is_finished(self, *, coarse: bool = False) -> bool:
        if len(self.blocks) >= self._most_blocks:
            return True
        if self._contradicted(coarse=coarse):
            return False
        low, high = self._bracket()
        if low is None:
            descents = sum(block.rate < self._ladder[0] for block in self.blocks)
            return descents >= (MOST_COARSE_DESCENTS if coarse else MOST_DESCENTS)
        return high is not None and high / low <= (COARSE if coarse else NARROW)

    def next_rates(self, *, coarse: bool = False) -> tuple[float, ...]:
        """Return the next rates, in ascending order: a queue grows in the last one."""
        low, high = self._bracket()
        contradicted = self._contradicted(coarse=coarse)
        if contradicted:
            rates: tuple[float, ...] = contradicted
        elif low is not None and high is not None:
            rates = (math.sqrt(low * high),)
        elif high is not None:
            rates = tuple(high * factor for factor in (COARSE_DESCENT if coarse else DESCENT))
        elif low is not None:
            rates = tuple(low * factor for factor in ASCENT[coarse:])
        else:
            rates = self._ladder[:: 2 if coarse else 1]
        return rates[: self._most_blocks - len(self.blocks)]

    def _contradicted(self, *, coarse: bool) -> tuple[float, ...]:
        """Return the rates that failed once although a higher rate met the limits.

        A coarse search measures none of them again.
        """
        most = max((block.rate for block in self.blocks if block.meets(self._share)), default=0.0)
        times = collections.Counter(block.rate for block in self.blocks)
        failed = [
            block.rate
            for block in self.blocks
            if block.rate < most and not block.meets(self._share) and times[block.rate] == 1
        ]
        return () if coarse else tuple(sorted(failed))

    def _bracket(self) -> tuple[float | None, float | None]:
        """Return the highest rate below every failure, and the lowest rate that failed.

        A rate that failed and met the limits when it was measured again, as a higher one did, has
        not failed.
        """
        met = {block.rate for block in self.blocks if block.meets(self._share)}
        most = max(met, default=0.0)
        failed = [
            block.rate
            for block in self.blocks
            if not block.meets(self._share) and not (block.rate < most and block.rate in met)
        ]
        high = min(failed, default=None)
        return max((rate for rate in met if high is None or rate < high), default=None), high
