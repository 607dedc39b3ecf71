"""Memory in use on devices and the host, and whether another worker fits."""

from __future__ import annotations

import itertools
import pathlib
import threading

import builders
import nvml
import pytest
import workers

from advisor.domain.run_events import DeviceMemory, WorkerReported
from advisor.probing.device_memory import DeviceMemoryMonitor, MemoryHeadroom, available_host_bytes
from probes.events import MemoryRead


def monitor_of(*used: int) -> tuple[DeviceMemoryMonitor, nvml.FakeNvml]:
    """Return the monitor of a GPU that has these bytes in use, one reading after the other."""
    readings = itertools.chain(used, itertools.repeat(used[-1]))
    library = nvml.FakeNvml(used=lambda: next(readings))
    return DeviceMemoryMonitor([nvml.UUID], library), library


def sampling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "device-memory"]


def test_the_peak_is_the_highest_valid_value_during_its_block() -> None:
    monitor, library = monitor_of(100, 700, -1, 1 << 63, 300)
    for highest in (700, 300):
        before = library.calls.count("used")
        with monitor.peak() as peak:
            assert len(sampling_threads()) == 1
            workers.wait_until(lambda: library.calls.count("used") > before + 6)  # noqa: B023
        assert (peak.highest, sampling_threads()) == (highest, [])


def test_sampling_stops_with_a_block_that_fails() -> None:
    with pytest.raises(RuntimeError), monitor_of(100)[0].peak():
        raise RuntimeError
    assert sampling_threads() == []


@pytest.mark.parametrize(("readings", "found"), [((900, 900, 500, 300, 300), 300), ((900,), 900)])
def test_the_memory_of_an_ended_process_is_read_after_the_driver_has_freed_it(
    readings: tuple[int, ...], found: int
) -> None:
    monitor, library = monitor_of(*readings)
    assert monitor.used_bytes_after_release(900, 0.5) == found
    assert library.calls.count("used") > 1


def test_a_device_that_does_not_answer_has_no_figures() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"]))
    assert monitor.used_bytes() is monitor.used_bytes_after_release(900) is None
    with monitor.peak() as peak:
        workers.wait_until(lambda: peak.highest is None)
    assert (peak.highest, monitor.total_bytes) == (None, None)


@pytest.mark.parametrize("used_bytes", [-1, (80 << 30) + 1, 1 << 63])
def test_an_impossible_value_is_discarded(used_bytes: int) -> None:
    assert monitor_of(used_bytes)[0].used_bytes() is None


def test_the_memory_of_several_gpus_is_counted_together() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID] * 2, nvml.FakeNvml(used=5 << 30))
    assert monitor.used_bytes() == 10 << 30
    assert monitor.total_bytes == 160 << 30


GIBIBYTE = 1 << 30


def device_memory(peak: int | None) -> DeviceMemory:
    return DeviceMemory(arm="compiled", process=0, peak_bytes=peak)


def host_memory(peak: int | None) -> WorkerReported:
    memory = MemoryRead(peak_rss_bytes=peak, device_reserved_bytes=None)
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
    builders.write_cgroup(tmp_path, tmp_path)
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("48576\n")
    assert available_host_bytes(tmp_path) == 1_000_000
