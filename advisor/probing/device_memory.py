"""Read the memory in use on a GPU, as the driver counts it for all processes and allocators."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psutil

from advisor.domain.run_events import DeviceMemory, RunEvent, WorkerReported
from advisor.probing.cgroups import PROC, Cgroups
from advisor.probing.nvml import Device, repeating
from probes.events import MemoryRead

PERIOD_SECONDS = 0.02
#: How long to wait until the memory of an ended process is free. On an H100, the gigabyte of a
#: killed process was still in use when the process had ended, and was free at the next reading.
RELEASE_SECONDS = 2.0

Number = TypeVar("Number", int, float)


class DeviceMemoryMonitor:
    """Reads the bytes in use on one or several GPUs together.

    The advisor reads them, not the worker, so that reading does not disturb the measured process.
    """

    def __init__(self, uuids: Sequence[str], nvml: Any | None = None) -> None:  # noqa: ANN401 - the module pynvml, or a fake
        self._devices = [Device.of(uuid, nvml) for uuid in uuids]
        #: Memory of all devices; None until NVML has answered once.
        self.total_bytes: int | None = None

    def used_bytes(self) -> int | None:
        """Return the bytes that all processes use now; None if NVML fails or returns nonsense."""
        each = [device.call("nvmlDeviceGetMemoryInfo") for device in self._devices]
        if None in each:
            return None
        used = sum(int(memory.used) for memory in each)
        self.total_bytes = sum(int(memory.total) for memory in each)
        return used if 0 <= used <= self.total_bytes else None

    def used_bytes_after_release(
        self, used: int | None, most_seconds: float = RELEASE_SECONDS
    ) -> int | None:
        """Return the used bytes once they are below `used` and steady, or after `most_seconds`."""
        deadline = time.monotonic() + most_seconds
        earlier, now = None, self.used_bytes()
        while (
            used is not None
            and now is not None
            and (now >= used or now != earlier)
            and time.monotonic() < deadline
        ):
            time.sleep(PERIOD_SECONDS)
            earlier, now = now, self.used_bytes()
        return now

    @contextlib.contextmanager
    def peak(self) -> Iterator[PeakMemory]:
        used = self.used_bytes()
        memory = PeakMemory(self, used, used)
        with repeating(memory.sample, PERIOD_SECONDS, "device-memory"):
            yield memory


@dataclasses.dataclass
class PeakMemory:
    """The most bytes that were in use while a worker built; None while nothing was read."""

    monitor: DeviceMemoryMonitor
    before: int | None
    highest: int | None
    #: Since everything was built.
    serving: int | None = None
    serves: bool = False

    def sample(self) -> None:
        used = self.monitor.used_bytes()
        if used is not None:
            self.highest = max(self.highest or 0, used)
            self.serving = max(self.serving or 0, used) if self.serves else None

    def result(self, arm: str, process: int) -> DeviceMemory:
        return DeviceMemory(
            arm=arm,
            process=process,
            peak_bytes=added_bytes(self.before, self.highest),
            serving_bytes=added_bytes(self.before, self.serving),
            total_bytes=self.monitor.total_bytes,
        )


def increase(before: Number | None, now: Number | None) -> Number | None:
    return now - before if now is not None and before is not None else None


def added_bytes(before: int | None, now: int | None) -> int | None:
    """Return the memory that was added: 0 if less is used now, because the driver freed some."""
    change = increase(before, now)
    return None if change is None else max(change, 0)


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
    #: What the GPU used before the first build.
    idle_bytes: int = 0

    def update(self, run_event: RunEvent) -> None:
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

    def update_from(self, pid: int) -> None:
        """Raise the largest peak to what the process `pid` uses now; nothing for one that is gone.

        On a GPU it counts what all workers use by then, which is at least as much.
        """
        used: int | None = None
        if self.monitor is not None:
            counted = self.monitor.used_bytes() if not self.largest_bytes else None
            used = counted - self.idle_bytes if counted else None
        else:
            with contextlib.suppress(psutil.Error):
                used = psutil.Process(pid).memory_info().rss
        self.largest_bytes = max(self.largest_bytes, used or 0)

    def fits_another_worker(self, running_builds: int = 0) -> bool:
        """Return True also where memory cannot be read."""
        factor = BUILD_FACTOR * (running_builds + 1) if running_builds else HEADROOM_FACTOR
        return self.has_free(factor * self.largest_bytes)

    def watch_half(self) -> Callable[[], bool]:
        """Return a function that tells whether half of the memory that is free now is taken.

        It looks at the host and the GPU.
        """
        readers = [self.available_bytes, *([self._free_on_gpu] if self.monitor else [])]
        halves = [(read, free / 2) for read in readers if (free := read()) is not None]
        return lambda: any((free := read()) is not None and free < half for read, half in halves)

    def _free_on_gpu(self) -> int | None:
        used = self.monitor.used_bytes() if self.monitor else None
        total = self.monitor.total_bytes if self.monitor else None
        return None if used is None or total is None else total - used

    def has_free(self, needed_bytes: float) -> bool:
        """Return whether this many bytes are free; True if memory cannot be read."""
        if self.monitor is None:
            return self.available_bytes() >= needed_bytes
        free = self._free_on_gpu()
        return free is None or free >= needed_bytes
