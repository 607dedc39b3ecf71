"""Whether one more worker fits, judged by the largest so far."""

from __future__ import annotations

import pathlib

import nvml
import pytest

from advisor.domain.run_events import DeviceMemory, WorkerReported
from advisor.domain.worker_events import MemoryRead
from advisor.probing.device_memory import MemoryWatch
from advisor.probing.memory_headroom import MemoryHeadroom, available_bytes

GIBIBYTE = 1 << 30


def counted(peak: int | None) -> DeviceMemory:
    return DeviceMemory(
        arm="compiled", process=0, before_bytes=0, peak_bytes=peak, resident_bytes=peak
    )


def read(peak: int | None) -> WorkerReported:
    said = MemoryRead(peak_rss_bytes=peak, device_allocated_bytes=None, device_reserved_bytes=None)
    return WorkerReported(arm="compiled", process=0, said=said)


@pytest.mark.parametrize(("used", "left"), [(50, True), (68, True), (70, False)])
def test_on_a_gpu_there_is_room_for_a_little_more_than_the_largest_so_far(
    used: int, left: bool
) -> None:
    watch = MemoryWatch(nvml.UUID, nvml.Nvml(used=used * GIBIBYTE))
    room = MemoryHeadroom(watch)
    for run_event in (
        counted(4 * GIBIBYTE),
        counted(10 * GIBIBYTE),
        counted(None),
        read(79 * GIBIBYTE),
    ):
        room.take(run_event)
    assert room.is_left() is left


@pytest.mark.parametrize(("available", "left"), [(12, True), (10, False)])
def test_on_the_host_the_resident_sets_count(available: int, left: bool) -> None:
    room = MemoryHeadroom(available=lambda: available * GIBIBYTE)
    for run_event in (read(3 * GIBIBYTE), read(10 * GIBIBYTE), read(None)):
        room.take(run_event)
    assert room.is_left() is left


def test_where_nobody_can_tell_there_is_room() -> None:
    room = MemoryHeadroom(MemoryWatch(nvml.UUID, nvml.Nvml(absent=["used"])))
    room.take(counted(10 * GIBIBYTE))
    assert room.is_left()
    assert available_bytes() > 0


def test_no_more_is_available_than_the_control_group_allows(tmp_path: pathlib.Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "self" / "mountinfo").write_text(
        f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    )
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("48576\n")
    assert available_bytes(tmp_path) == 1_000_000
