"""Memory in use on devices and the host, and whether another worker fits."""

from __future__ import annotations

import itertools
import pathlib
import threading
import types

import nvml
import pytest
import workers

from advisor.domain.run_events import DeviceMemory, WorkerReported
from advisor.probing.device_memory import DeviceMemoryMonitor, MemoryHeadroom, available_host_bytes
from probes.wire.events import MemoryRead

UUID = "GPU-1111"


class CountingNvml:
    """A fake of NVML that counts how often memory is read."""

    NVMLError = nvml.NVMLError

    def __init__(self, used_bytes: int) -> None:
        self.used_bytes = used_bytes
        self.reads = 0
        self.initialised = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self.initialised = True

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        assert self.initialised
        return f"handle of {uuid}"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> types.SimpleNamespace:  # noqa: N802
        assert handle == f"handle of {UUID}"
        self.reads += 1
        return types.SimpleNamespace(total=1 << 40, free=0, used=self.used_bytes)

    def set_used(self, used_bytes: int) -> None:
        """Have this many bytes in use until a sample has read them."""
        self.used_bytes = used_bytes
        # The read in progress may have started before the change; the next one has not.
        enough = self.reads + 2
        workers.wait_until(lambda: self.reads >= enough)


class ReleasingNvml(CountingNvml):
    """A fake of NVML that reports these bytes in turn, and then the last of them."""

    def __init__(self, readings: list[int]) -> None:
        super().__init__(used_bytes=readings[0])
        self.readings = readings

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> types.SimpleNamespace:  # noqa: N802
        self.used_bytes = self.readings[min(self.reads, len(self.readings) - 1)]
        return super().nvmlDeviceGetMemoryInfo(handle)


def sampling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "device-memory"]


def test_the_bytes_in_use_are_those_of_the_named_gpu() -> None:
    assert DeviceMemoryMonitor([UUID], CountingNvml(used_bytes=5 << 30)).used_bytes() == 5 << 30


def test_the_peak_is_the_highest_value_during_the_block() -> None:
    library = CountingNvml(used_bytes=100)
    with DeviceMemoryMonitor([UUID], library).peak() as peak:
        assert peak() == 100
        for used_bytes, highest in ((700, 700), (300, 700), (900, 900), (200, 900)):
            library.set_used(used_bytes)
            assert peak() == highest
    library.used_bytes = 5000
    assert peak() == 900, "values after the block do not count"


def test_a_peak_starts_again_in_each_block() -> None:
    library = CountingNvml(used_bytes=100)
    monitor = DeviceMemoryMonitor([UUID], library)
    with monitor.peak():
        library.set_used(900)
    library.used_bytes = 200
    with monitor.peak() as peak:
        library.set_used(300)
    assert peak() == 300


def test_sampling_stops_with_the_block_however_it_ends() -> None:
    monitor = DeviceMemoryMonitor([UUID], CountingNvml(used_bytes=100))
    with monitor.peak():
        assert len(sampling_threads()) == 1
    assert sampling_threads() == []
    with pytest.raises(RuntimeError), monitor.peak():
        raise RuntimeError
    assert sampling_threads() == []


def test_the_memory_of_an_ended_process_is_read_after_the_driver_has_freed_it() -> None:
    monitor = DeviceMemoryMonitor([UUID], ReleasingNvml([900, 900, 500, 300, 300]))
    assert monitor.used_bytes_after_release(900) == 300


def test_memory_that_is_not_freed_is_waited_for_only_so_long() -> None:
    library = CountingNvml(used_bytes=900)
    assert DeviceMemoryMonitor([UUID], library).used_bytes_after_release(900, 0.1) == 900
    assert library.reads > 1


def test_a_device_that_does_not_answer_is_not_waited_for() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"]))
    assert monitor.used_bytes_after_release(900) is None


def test_a_device_that_does_not_answer_has_no_peak() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"]))
    assert monitor.used_bytes() is None
    with monitor.peak() as peak:
        workers.wait_until(lambda: peak() is None)
    assert (peak(), monitor.total_bytes) == (None, None)


@pytest.mark.parametrize("used_bytes", [-1, (80 << 30) + 1, 1 << 63])
def test_an_impossible_value_is_discarded(used_bytes: int) -> None:
    assert DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(used=used_bytes)).used_bytes() is None


def test_a_failed_read_does_not_change_the_peak() -> None:
    answers = itertools.cycle([5 << 30, -1, 1 << 63, 3 << 30])
    library = nvml.FakeNvml(used=lambda: next(answers))
    with DeviceMemoryMonitor([nvml.UUID], library).peak() as peak:
        workers.wait_until(lambda: library.calls.count("used") > 8)
    assert peak() == 5 << 30


def test_the_memory_of_several_gpus_is_counted_together() -> None:
    monitor = DeviceMemoryMonitor([UUID, UUID], CountingNvml(used_bytes=5 << 30))
    assert monitor.used_bytes() == 10 << 30
    assert monitor.total_bytes == 2 << 40


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
