"""Compare the clock of a worker with the supervisor's.

A stack or a model may replace the clock of its worker, and the reported durations are wrong then.
Each visit lies between two readings of the supervisor's clock, so its own first and last reading
bound the offset of the two clocks. Bounds that contradict each other prove that the worker's clock
runs at another speed. The clocks need no common origin.
"""

from __future__ import annotations

import dataclasses
import math

#: A contradiction up to this long is no fault: two correct clocks may be adjusted separately.
TOLERANCE_SECONDS = 0.005


@dataclasses.dataclass
class ClockComparison:
    """Bounds of the offset of a worker's clock from the supervisor's, in seconds."""

    low: float = -math.inf
    high: float = math.inf

    def add_visit(self, began: float, ended: float, sent: float, received: float) -> None:
        """Add a visit.

        `began` and `ended` are readings of the worker's clock; `sent` and `received`, of the
        supervisor's, are those of its token and its result.
        """
        self.low = max(self.low, ended - received)
        self.high = min(self.high, began - sent)

    @property
    def contradiction_seconds(self) -> float:
        """By how much the clocks have differed; 0.0 if they agree."""
        difference = self.low - self.high
        return difference if difference > TOLERANCE_SECONDS else 0.0
