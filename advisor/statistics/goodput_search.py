"""Choose the rates at which the goodput of a server is searched. Pure.

The search tries a ladder of rates and bisects what remains. A rate that failed below one that met
the limits is measured again first: a disturbance may have slowed the server during one block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.statistics.missed_curve import LoadBlock

#: Factors between two rates while no rate is known that meets the limits, or none that does not.
DESCENT, COARSE_DESCENT, ASCENT = (0.25, 0.5), (0.25,), (1.5, 2.5)
#: The bracket is left when its ends are within this factor; of a coarse search, within the other.
NARROW, COARSE = 1.4, 2.6
#: Rates below the ladder that are tried before the answer is that none meets the limits; and those
#: of a coarse search. A server that serves one batch after the other may meet the limits only far
#: below its capacity: a request that arrives during a batch waits for its end.
MOST_DESCENTS, MOST_COARSE_DESCENTS = 4, 2


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
        if self._contradicted(coarse=coarse):
            return False
        low, high = self._bracket()
        if low is None:
            descents = sum(block.rate < self._ladder[0] for block in self.blocks)
            return descents >= (MOST_COARSE_DESCENTS if coarse else MOST_DESCENTS)
        return high is not None and high / low <= (COARSE if coarse else NARROW)

    def next_rates(self, *, coarse: bool = False) -> tuple[float, ...]:
        """Return the rates of the next blocks, in ascending order: a queue grows in the last one.

        A coarse search asks for few.
        """
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

    def record(self, block: LoadBlock) -> None:
        """Add a block."""
        self.blocks.append(block)

    def _contradicted(self, *, coarse: bool) -> tuple[float, ...]:
        """Return the rates that failed once although a higher rate met the limits.

        A coarse search measures none of them again.
        """
        most = max((block.rate for block in self.blocks if block.meets(self._share)), default=0.0)
        failed = [
            block.rate
            for block in self.blocks
            if block.rate < most and not block.meets(self._share) and self._count(block.rate) == 1
        ]
        return () if coarse else tuple(sorted(failed))

    def _count(self, rate: float) -> int:
        return sum(block.rate == rate for block in self.blocks)

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
