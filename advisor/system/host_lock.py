"""Lock that several races on one host share, each on a GPU of its own.

Imports, builds and profiles hold the lock exclusively. Timed sections share it: they run at the
same time as the timed sections of other races, and never during a build. The clock excludes the
time that a race waits for the lock, so a neighbour's build uses neither its budget nor its
deadlines.
"""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import time
from collections.abc import Callable, Iterator


class HostLock:
    """The lock as one race uses it; without a file there is nothing to wait for."""

    def __init__(
        self, file: pathlib.Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file
        self._clock = clock
        self._waited_seconds = 0.0

    def clock(self) -> float:
        """Return the seconds of the clock without the time spent waiting for the lock."""
        return self._clock() - self._waited_seconds

    def shared(self) -> contextlib.AbstractContextManager[None]:
        """Wait until no race holds the lock exclusively; hold it shared for the block."""
        return self._hold(fcntl.LOCK_SH)

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Wait until no race holds the lock; hold it exclusively for the block."""
        return self._hold(fcntl.LOCK_EX)

    # `flock` is called directly. portalocker wraps the same call and adds no fairness; the shared
    # lock of filelock polls an SQLite file, which costs CPU time while another race is timed.
    @contextlib.contextmanager
    def _hold(self, kind: int) -> Iterator[None]:
        if self._file is None:
            yield
            return
        with self._file.open("a") as lock:
            started = self._clock()
            # `flock` is not fair: overlapping shared holders would keep an exclusive one out
            # forever. Only the race at the entrance may ask for the lock, so new shared holders
            # queue behind an exclusive one.
            with self._file.with_name(f"{self._file.name}-entrance").open("a") as entrance:
                fcntl.flock(entrance, fcntl.LOCK_EX)
                fcntl.flock(lock, kind)
            self._waited_seconds += self._clock() - started
            yield
