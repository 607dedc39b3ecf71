"""Measure the device memory of arms: while they are built, or when they end.

While several arms are built side by side, the memory in use does not show which arm uses what. Such
an arm used the memory that its worker frees when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.run_events import DeviceMemory, RunEvent, WorkerReported
from advisor.probing.device_memory import BuildMemory, DeviceMemoryMonitor, added_bytes
from advisor.probing.worker_pool import WorkerPool
from advisor.probing.worker_process import Worker
from probes.wire.events import Engagement


class ArmMemory:
    """The device memory of the arms of a session; without a monitor nothing is measured."""

    def __init__(self, pool: WorkerPool, monitor: DeviceMemoryMonitor | None) -> None:
        self._pool = pool
        self._monitor = monitor
        self._built_side_by_side: set[str] = set()

    def add_side_by_side(self, arm: str) -> None:
        self._built_side_by_side.add(arm)

    def reset(self, arm: str) -> None:
        """Forget how the arm was built, because a new worker of it starts."""
        self._built_side_by_side.discard(arm)

    def is_measured_at_end(self, arm: str) -> bool:
        """Return whether the end of the arm's worker shows its memory."""
        return self._monitor is not None and arm in self._built_side_by_side

    def measure_build(
        self, worker: Worker, build: Iterator[RunEvent], deferred: list[RunEvent]
    ) -> Iterator[RunEvent]:
        """Yield the events of a build; put the memory that it adds into `deferred`."""
        if self._monitor is None or worker.arm in self._built_side_by_side:
            yield from build
            return
        with BuildMemory(self._monitor) as memory:
            for run_event in build:
                yield run_event
                if isinstance(run_event, WorkerReported) and isinstance(
                    run_event.worker_event, Engagement
                ):
                    memory.start_serving()
        measured = memory.result(worker.arm, worker.process)
        self._pool.headroom.update(measured)
        deferred.append(measured)

    def measure_end(self, arm: str, end: Iterator[RunEvent]) -> Iterator[RunEvent]:
        """Yield the events of the end of one worker, then the memory that it used and now frees."""
        if self._monitor is None or arm not in self._built_side_by_side:
            yield from end
            return
        used = self._monitor.used_bytes()
        yield from end
        remaining = self._monitor.used_bytes_after_release(used)
        freed = added_bytes(remaining, used)
        yield DeviceMemory(
            arm=arm,
            process=self._pool.workers[arm].process,
            before_bytes=remaining,
            peak_bytes=freed,
            resident_bytes=freed,
            total_bytes=self._monitor.total_bytes,
            source="freed",
        )
