"""Memory of a GPU as the device itself counts it: every allocator, context and workspace, not only PyTorch's."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

PERIOD_SECONDS = 0.02


class Peak:
    """The highest number of bytes seen so far; None when the device has not answered once."""

    def __init__(self) -> None:
        self.highest: int | None = None

    def take(self, used_bytes: int | None) -> None:
        """Take one look into account."""
        if used_bytes is not None:
            self.highest = used_bytes if self.highest is None else max(self.highest, used_bytes)


class MemoryWatch:
    """Reads the bytes in use on one GPU, from the advisor's side so that the measured process is not disturbed."""

    def __init__(self, uuid: str, nvml: Any | None = None) -> None:  # noqa: ANN401 - pynvml, or what stands in for it
        self._nvml = nvml or importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        #: What the device has in all; None until it has answered.
        self.total_bytes: int | None = None

    def used_bytes(self) -> int | None:
        """Return the bytes in use now, by whomever; None when the device does not say, or says what cannot be."""
        try:
            memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        except self._nvml.NVMLError:
            return None
        used, self.total_bytes = int(memory.used), int(memory.total)
        return used if 0 <= used <= self.total_bytes else None

    @contextlib.contextmanager
    def peak(self) -> Iterator[Callable[[], int | None]]:
        """Watch while the block runs; yield a function that returns the highest value so far."""
        seen = Peak()
        seen.take(self.used_bytes())
        over = threading.Event()

        def watch() -> None:
            while not over.wait(PERIOD_SECONDS):
                seen.take(self.used_bytes())

        thread = threading.Thread(target=watch, name="device-memory", daemon=True)
        thread.start()
        try:
            yield lambda: seen.highest
        finally:
            over.set()
            thread.join()


def above(bytes_now: int | None, bytes_before: int | None) -> int | None:
    """Return by how much more is in use; None where either is not known."""
    return bytes_now - bytes_before if bytes_now is not None and bytes_before is not None else None
