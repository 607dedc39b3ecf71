"""The shape of a call: what a cell of a run is measured at."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated


@functools.total_ordering
@dataclasses.dataclass(frozen=True)
class Shape:
    """The batch size of a call and, in a run with several lengths, its lengths in tokens.

    `output_tokens` is None for a forward pass. Shapes are ordered by length, then by batch size.
    """

    batch_size: Size
    input_tokens: Size | None = None
    output_tokens: Size | None = None

    def __lt__(self, other: Shape) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, int, int]:
        return (self.input_tokens or 0, self.output_tokens or 0, self.batch_size)

    @property
    def tokens(self) -> str:
        """The lengths, such as `512` or `512+128`; empty in a run with one pair of them."""
        return "+".join(str(each) for each in (self.input_tokens, self.output_tokens) if each)

    @property
    def description(self) -> str:
        """The shape in words, such as `batch size 16` or `batch size 16 with 512+128 tokens`."""
        tokens = f" with {self.tokens} tokens" if self.tokens else ""
        return f"batch size {self.batch_size}{tokens}"

    def __str__(self) -> str:
        """Return `16`, `16x512` for inputs of 512 tokens, or `16x512+128` with 128 new tokens."""
        return f"{self.batch_size}x{self.tokens}" if self.tokens else str(self.batch_size)


#: Compilers specialise a length of 1, so it is not a typical new one.
SHORTEST = 2


def other_length(built: int) -> int:
    """Return the length to try: about half, which no limit of the model or an engine forbids."""
    return built // 2 + 1 if built > SHORTEST else built + 1


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The bounds of a number, both included."""

    low: float
    high: float


#: A time, size, rate or share; never negative.
Amount = Annotated[float, Bounds(0, 1e30)]
#: Seconds of something that was timed: from a picosecond to thirty years.
Duration = Annotated[float, Bounds(1e-12, 1e9)]
#: Something per second that was timed.
Rate = Annotated[float, Bounds(1e-12, 1e30)]
#: A number of things or bytes.
Count = Annotated[int, Bounds(0, (1 << 63) - 1)]
#: A batch size, or a number of units in a sample.
Size = Annotated[int, Bounds(1, 1 << 53)]
