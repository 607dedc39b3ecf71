"""Read GPUs through NVIDIA's management library (NVML), once or again and again."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from advisor.domain.machine import GpuProcess

MILLI = 1e-3
MAX_NVLINKS = 18


class Device:
    """One GPU; a property that it does not report is None, and so are all of a lost GPU."""

    def __init__(self, library: Any, find_handle: Callable[[], Any]) -> None:  # noqa: ANN401 - pynvml is untyped
        self._library, self._find_handle = library, find_handle

    @classmethod
    def of(cls, uuid: str, library: Any | None = None) -> Device:  # noqa: ANN401 - as above, or a fake
        library = library or importlib.import_module("pynvml")

        def find_handle() -> Any:  # noqa: ANN401 - as above
            library.nvmlInit()
            return library.nvmlDeviceGetHandleByUUID(uuid)

        return cls(library, find_handle)

    @functools.cached_property
    def _handle(self) -> Any:  # noqa: ANN401 - as above
        return self._find_handle()

    def call(self, function: str, *arguments: int) -> Any:  # noqa: ANN401 - as above
        try:
            return getattr(self._library, function)(self._handle, *arguments)
        except (self._library.NVMLError, AttributeError):
            return None

    def number(self, function: str, constant: str | None = None) -> int | None:
        """Return a number; `constant` is the name of the pynvml constant to pass."""
        arguments = (getattr(self._library, constant, None),) if constant else ()
        value = None if None in arguments else self.call(function, *arguments)
        return int(value) if value is not None else None

    def watts(self, function: str) -> float | None:
        value = self.call(function)
        return value * MILLI if value is not None else None

    def current_flag(self, function: str) -> bool | None:
        """Return the current state of a function that may return current and pending state."""
        value = self.call(function)
        current = value[0] if isinstance(value, (list, tuple)) else value
        return bool(current) if current is not None else None

    def count_active_nvlinks(self) -> int | None:
        """Return the number of active links; None for a GPU without NVLink."""
        states = [self.call("nvmlDeviceGetNvLinkState", link) for link in range(MAX_NVLINKS)]
        known = [state for state in states if state is not None]
        return sum(map(bool, known)) if known else None

    def processes(self, function: str) -> tuple[GpuProcess, ...]:
        """Return the GPU's processes; in a container they have the host's ids and no names."""
        return tuple(
            GpuProcess(
                pid=process.pid, memory_bytes=process.usedGpuMemory, name=_process_name(process.pid)
            )
            for process in self.call(function) or ()
        )


def _process_name(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return None


@contextlib.contextmanager
def repeating(work: Callable[[], None], seconds: float, name: str) -> Iterator[None]:
    """Do the work in a thread of this name, at an interval of `seconds`, while the block runs."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            work()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
