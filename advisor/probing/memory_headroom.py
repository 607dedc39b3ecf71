"""Is there memory for one more resident worker?

What the largest so far has taken stands for what the next will take.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import psutil

from advisor.domain.run_events import DeviceMemory, RunEvent, WorkerReported
from advisor.domain.worker_events import MemoryRead
from advisor.probing.device_memory import MemoryWatch
from advisor.system.cgroups import PROC, ControlGroups

#: The next worker may take a little more than the largest so far.
ALLOWANCE = 1.1


def available_bytes(proc: pathlib.Path = PROC) -> int:
    """Return the bytes that the host can give without swapping, and our control groups allow."""
    allowed = ControlGroups(proc).free_memory_bytes()
    available = int(psutil.virtual_memory().available)
    return available if allowed is None else min(available, allowed)


@dataclasses.dataclass
class MemoryHeadroom:
    """Follows what workers took; on a GPU of the device's memory, else of the host's."""

    watch: MemoryWatch | None = None
    available: Callable[[], int] = available_bytes
    largest_bytes: int = 0

    def take(self, run_event: RunEvent) -> None:
        """Take what a worker has taken into account."""
        taken = None
        if isinstance(run_event, DeviceMemory):
            taken = run_event.peak_bytes
        elif (
            self.watch is None
            and isinstance(run_event, WorkerReported)
            and isinstance(run_event.said, MemoryRead)
        ):
            taken = run_event.said.peak_rss_bytes
        self.largest_bytes = max(self.largest_bytes, taken or 0)

    def is_left(self) -> bool:
        """Say whether one more worker fits; it does where nobody can tell."""
        if self.watch is None:
            return self.available() >= ALLOWANCE * self.largest_bytes
        used = self.watch.used_bytes()
        if used is None or self.watch.total_bytes is None:
            return True
        return self.watch.total_bytes - used >= ALLOWANCE * self.largest_bytes
