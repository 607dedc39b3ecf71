"""Divide the processors among builds that run side by side."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Collection, Iterable

from advisor.probing.termination import process_tree


class ProcessorShares:
    """Equal shares of the processors, one for each build that runs."""

    def __init__(self, processors: Iterable[int], builds_at_once: int) -> None:
        """Divide `processors` among at most `builds_at_once` builds."""
        ordered = sorted(processors)
        self.builds_at_once = max(1, min(builds_at_once, len(ordered)))
        #: Processors of each build; those that remain after the division go to the first builds.
        self._free = [
            frozenset(ordered[i :: self.builds_at_once]) for i in range(self.builds_at_once)
        ]
        self._taken: dict[str, frozenset[int]] = {}

    def has_free(self) -> bool:
        return bool(self._free)

    def take(self, arm: str) -> frozenset[int]:
        self._taken[arm] = self._free.pop(0)
        return self._taken[arm]

    def size(self, arm: str) -> int:
        return len(self._taken[arm])

    def release(self, arm: str) -> None:
        self._free.append(self._taken.pop(arm))

    def extend(self) -> dict[str, frozenset[int]]:
        """Divide the free processors among the builds that run; return those of each.

        For the end of a stretch, when no further build starts.
        """
        spare = sorted(frozenset[int]().union(*self._free))
        running = sorted(self._taken, key=lambda arm: len(self._taken[arm]))
        if running:
            self._free = []
            for index, arm in enumerate(running):
                self._taken[arm] = self._taken[arm].union(spare[index :: len(running)])
        return dict(self._taken)

    @property
    def count(self) -> int:
        return sum(map(len, (*self._free, *self._taken.values())))


def confine(directory: pathlib.Path, processors: Collection[int]) -> None:
    """Let all threads of the worker in this control directory run on `processors` only."""
    for process in process_tree(directory):
        with contextlib.suppress(OSError):
            for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread.name), processors)


def divide_processors(usable: Collection[int], generator: int) -> tuple[set[int], set[int]]:
    """Return the processors of the server, and those of the load generator.

    A single processor is shared.
    """
    ordered = sorted(usable)
    if len(ordered) == 1:
        return set(ordered), set(ordered)
    return set(ordered[:-generator]), set(ordered[-generator:])


def usable_processors() -> set[int]:
    return os.sched_getaffinity(0)
