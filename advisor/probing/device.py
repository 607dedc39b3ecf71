"""Memory of a GPU as the device itself counts it: every allocator, context and workspace, not only PyTorch's."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

PERIOD_SECONDS = 0.02


class MemoryWatch:
    """Reads the bytes in use on one GPU, from the advisor's side so that the measured process is not disturbed."""

    def __init__(self, uuid: str, nvml: Any | None = None) -> None:  # noqa: ANN401 - pynvml, or what stands in for it
        self._nvml = nvml or importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)

    def used_bytes(self) -> int:
        """Return the bytes in use now, by whomever."""
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)

    @contextlib.contextmanager
    def peak(self) -> Iterator[Callable[[], int]]:
        """Watch while the block runs; yield a function that returns the highest value so far."""
        highest = [self.used_bytes()]
        over = threading.Event()

        def watch() -> None:
            while not over.wait(PERIOD_SECONDS):
                highest[0] = max(highest[0], self.used_bytes())

        thread = threading.Thread(target=watch, name="device-memory", daemon=True)
        thread.start()
        try:
            yield lambda: highest[0]
        finally:
            over.set()
            thread.join()
