"""Turns of several races that run side by side on one host, each on a GPU of its own: timed sections overlap, builds overlap nothing.

Whoever imports, builds or profiles holds the host's turn alone; whoever times shares it with others
who time. The clock stands still while a race waits for its turn, so that a neighbour's build costs
neither budget nor deadline. A race that is alone waits for nobody.

Whoever wants a turn waits for it at the entrance, one at a time: else those who time, each before
the other has ended, would keep out whoever works for as long as they go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import time
from collections.abc import Callable, Iterator


class HostLock:
    """The turns of one race; without a file there are no others."""

    def __init__(
        self, file: pathlib.Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file
        self._clock = clock
        self._waited_seconds = 0.0

    def clock(self) -> float:
        """Return the seconds, those of waiting left out."""
        return self._clock() - self._waited_seconds

    def timing(self) -> contextlib.AbstractContextManager[None]:
        """Wait until nobody works, and let nobody begin to while the block is timed."""
        return self._hold(fcntl.LOCK_SH)

    def working(self) -> contextlib.AbstractContextManager[None]:
        """Wait until nobody else works or is timed, and have the host alone for the block."""
        return self._hold(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def _hold(self, kind: int) -> Iterator[None]:
        if self._file is None:
            yield
            return
        with self._file.open("a") as lock:
            since = self._clock()
            with self._file.with_name(f"{self._file.name}-entrance").open("a") as entrance:
                fcntl.flock(entrance, fcntl.LOCK_EX)
                fcntl.flock(lock, kind)
            self._waited_seconds += self._clock() - since
            yield
