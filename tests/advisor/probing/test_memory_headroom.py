"""Whether one more worker fits into memory."""

from __future__ import annotations

import pathlib

import nvml
import pytest

from advisor.domain.run_events import DeviceMemory, WorkerReported
from advisor.probing.device_memory import DeviceMemoryMonitor, MemoryHeadroom, available_host_bytes
from probes.wire.events import MemoryRead

GIBIBYTE = 1 << 30


def device_memory(peak: int | None) -> DeviceMemory:
    return DeviceMemory(
        arm="compiled", process=0, before_bytes=0, peak_bytes=peak, resident_bytes=peak
    )


def host_memory(peak: int | None) -> WorkerReported:
    memory = MemoryRead(
        peak_rss_bytes=peak, device_allocated_bytes=None, device_reserved_bytes=None
    )
    return WorkerReported(arm="compiled", process=0, worker_event=memory)


@pytest.mark.parametrize(("used", "fits"), [(50, True), (68, True), (70, False)])
def test_a_worker_a_little_larger_than_the_largest_must_fit_on_the_gpu(
    used: int, fits: bool
) -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(used=used * GIBIBYTE))
    headroom = MemoryHeadroom(monitor)
    for run_event in (
        device_memory(4 * GIBIBYTE),
        device_memory(10 * GIBIBYTE),
        device_memory(None),
        host_memory(79 * GIBIBYTE),
    ):
        headroom.update(run_event)
    assert headroom.fits_another_worker() is fits


@pytest.mark.parametrize(("available", "fits"), [(12, True), (10, False)])
def test_on_the_host_the_resident_set_sizes_count(available: int, fits: bool) -> None:
    headroom = MemoryHeadroom(available_bytes=lambda: available * GIBIBYTE)
    for run_event in (host_memory(3 * GIBIBYTE), host_memory(10 * GIBIBYTE), host_memory(None)):
        headroom.update(run_event)
    assert headroom.fits_another_worker() is fits


def test_a_worker_fits_where_memory_cannot_be_read() -> None:
    headroom = MemoryHeadroom(DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"])))
    headroom.update(device_memory(10 * GIBIBYTE))
    assert headroom.fits_another_worker()
    assert available_host_bytes() > 0


def test_available_memory_is_limited_by_the_cgroup(tmp_path: pathlib.Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "self" / "mountinfo").write_text(
        f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    )
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("48576\n")
    assert available_host_bytes(tmp_path) == 1_000_000
