"""The bytes in use on a GPU, as its management library counts them."""

from __future__ import annotations

import itertools
import threading
import types

import nvml
import pytest
import workers

from advisor.probing.device_memory import MemoryWatch

UUID = "GPU-1111"


class Nvml:
    """Stands for the management library of a machine with two GPUs."""

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

    def become(self, used_bytes: int) -> None:
        """Have this many bytes in use until somebody has surely seen it."""
        self.used_bytes = used_bytes
        # The read that is under way may have looked before; the one after it has not.
        enough = self.reads + 2
        workers.wait_until(lambda: self.reads >= enough)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "device-memory"]


def test_the_bytes_in_use_are_those_of_the_gpu_that_was_named() -> None:
    assert MemoryWatch(UUID, Nvml(used_bytes=5 << 30)).used_bytes() == 5 << 30


def test_the_peak_is_the_highest_value_in_between() -> None:
    library = Nvml(used_bytes=100)
    with MemoryWatch(UUID, library).peak() as peak:
        assert peak() == 100
        for used_bytes, highest in ((700, 700), (300, 700), (900, 900), (200, 900)):
            library.become(used_bytes)
            assert peak() == highest
    library.used_bytes = 5000
    assert peak() == 900, "what happens after the block does not count"


def test_a_peak_begins_anew() -> None:
    library = Nvml(used_bytes=100)
    watch = MemoryWatch(UUID, library)
    with watch.peak():
        library.become(900)
    library.used_bytes = 200
    with watch.peak() as peak:
        library.become(300)
    assert peak() == 300


def test_nobody_watches_after_the_block_however_it_ends() -> None:
    watch = MemoryWatch(UUID, Nvml(used_bytes=100))
    with watch.peak():
        assert len(watchers()) == 1
    assert watchers() == []
    with pytest.raises(RuntimeError), watch.peak():
        raise RuntimeError
    assert watchers() == []


def test_a_device_that_does_not_answer_is_not_known_and_breaks_nothing() -> None:
    watch = MemoryWatch(nvml.UUID, nvml.Nvml(absent=["used"]))
    assert watch.used_bytes() is None
    with watch.peak() as peak:
        workers.wait_until(lambda: peak() is None)
    assert (peak(), watch.total_bytes) == (None, None)


@pytest.mark.parametrize("used_bytes", [-1, (80 << 30) + 1, 1 << 63])
def test_what_cannot_be_is_not_known(used_bytes: int) -> None:
    assert MemoryWatch(nvml.UUID, nvml.Nvml(used=used_bytes)).used_bytes() is None


def test_one_look_that_failed_does_not_spoil_the_peak() -> None:
    answers = itertools.cycle([5 << 30, -1, 1 << 63, 3 << 30])
    library = nvml.Nvml(used=lambda: next(answers))
    with MemoryWatch(nvml.UUID, library).peak() as peak:
        workers.wait_until(lambda: library.asked.count("used") > 8)
    assert peak() == 5 << 30
