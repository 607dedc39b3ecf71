"""Estimate whether one more resident worker fits into memory."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import psutil

from advisor.domain.run_events import DeviceMemory, RunEvent, WorkerReported
from advisor.probing.device_memory import DeviceMemoryMonitor
from advisor.system.cgroups import PROC, Cgroups
from probes.wire.events import MemoryRead

#: The next worker may need a little more than the largest so far.
HEADROOM_FACTOR = 1.1
#: Builds that run at the same time have not shown their peaks yet. In kept runs of models with
#: 16 GB of weights, the largest peak was 1.41 times the baseline's. A build that runs out of memory
#: is repeated alone.
BUILD_FACTOR = 1.5


def available_host_bytes(proc: pathlib.Path = PROC) -> int:
    """Return the bytes that the host can give without swapping, within the cgroup limits."""
    within_limit = Cgroups(proc).free_memory_bytes()
    available = int(psutil.virtual_memory().available)
    return available if within_limit is None else min(available, within_limit)


@dataclasses.dataclass
class MemoryHeadroom:
    """Compares the memory that is left with the peak of the largest worker so far.

    With a monitor it counts memory of the GPU, else memory of the host.
    """

    monitor: DeviceMemoryMonitor | None = None
    available_bytes: Callable[[], int] = available_host_bytes
    largest_bytes: int = 0

    def update(self, run_event: RunEvent) -> None:
        """Raise the largest peak if the event reports a higher one."""
        peak_bytes = None
        if isinstance(run_event, DeviceMemory):
            peak_bytes = run_event.peak_bytes
        elif (
            self.monitor is None
            and isinstance(run_event, WorkerReported)
            and isinstance(run_event.worker_event, MemoryRead)
        ):
            peak_bytes = run_event.worker_event.peak_rss_bytes
        self.largest_bytes = max(self.largest_bytes, peak_bytes or 0)

    def fits_another_worker(self, running_builds: int = 0) -> bool:
        """Return whether one more worker fits next to the running builds.

        True where memory cannot be read.
        """
        factor = BUILD_FACTOR * (running_builds + 1) if running_builds else HEADROOM_FACTOR
        needed_bytes = factor * self.largest_bytes
        if self.monitor is None:
            return self.available_bytes() >= needed_bytes
        used = self.monitor.used_bytes()
        if used is None or self.monitor.total_bytes is None:
            return True
        return self.monitor.total_bytes - used >= needed_bytes
