"""Blocks of requests that were sent to a server at one rate."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

#: Misses of a group have at most so many requests that met the limits between them.
SEPARATED = 5


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


def count_groups(missed: Sequence[bool]) -> int:
    """Return the number of groups of missed requests, from whether each request missed, in order.

    At most `SEPARATED` requests between two misses of a group met the limits.
    """
    misses = [index for index, each in enumerate(missed) if each]
    later = sum(b - a > SEPARATED + 1 for a, b in itertools.pairwise(misses))
    return later + bool(misses)


def group_size(blocks: Sequence[LoadBlock]) -> float:
    """Return how many misses a group has on average; 1 where each request missed alone.

    Blocks of which most requests missed do not count: their groups are as long as the block.
    """
    few = [block for block in blocks if 0 < block.missed < block.met]
    groups = sum(block.missed if block.groups is None else block.groups for block in few)
    return sum(block.missed for block in few) / groups if groups else 1.0
