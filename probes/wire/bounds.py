"""Numbers that a worker may report: one outside these bounds is a damaged message.

A worker runs foreign code, and a stored run may come from anybody. Without bounds, a zero or an
absurd figure would end in an arithmetic error far from its origin. `advisor.domain.wire` checks
them.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated


@dataclasses.dataclass(frozen=True)
class Range:
    """The bounds of a number, both included."""

    low: float
    high: float


#: A time, size, rate or share; never negative.
Amount = Annotated[float, Range(0, 1e30)]
#: Seconds of something that was timed: from a picosecond to thirty years.
Duration = Annotated[float, Range(1e-12, 1e9)]
#: Something per second that was timed.
Rate = Annotated[float, Range(1e-12, 1e30)]
#: A number of things or bytes.
Count = Annotated[int, Range(0, (1 << 63) - 1)]
#: A batch size, or a number of units in a sample.
Size = Annotated[int, Range(1, 1 << 53)]
