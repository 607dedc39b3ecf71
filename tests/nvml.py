"""A fake of NVIDIA's management library (NVML) with settable answers and missing functions."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable
from typing import Any

from advisor.probing.device_memory import DeviceMemoryMonitor

UUID = "GPU-1111"


class NVMLError(Exception):
    """The library's exception."""


def gpu_process(pid: int) -> types.SimpleNamespace:
    """Return a process as the library reports it."""
    return types.SimpleNamespace(pid=pid, usedGpuMemory=1 << 30)


class FakeNvml:
    """A machine with one GPU; `absent` names the functions that this GPU does not support.

    The library lacks the functions that have no answer here. An exception as answer is raised.
    """

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, absent: Iterable[str] = (), **answers: Any) -> None:
        self.absent = set(absent)
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": "580.65.06",
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": int,
            "nvmlDeviceGetHandleByUUID": str,
            "nvmlDeviceGetUUID": UUID,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": lambda _: types.SimpleNamespace(
                total=self.answers["total"], free=70, used=self._answer("used")
            ),
            "nvmlDeviceGetDefaultApplicationsClock": 1980,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 40,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
            "used": 1 << 30,
            "total": 80 << 30,
            **answers,
        }
        #: Names of the functions called so far.
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers.keys() | self.absent:
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: object) -> Any:
        self.calls.append(name)
        answer = NVMLError(f"{name} failed") if name in self.absent else self.answers[name]
        answer = answer(*arguments) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


def monitor_of(*used: int) -> tuple[DeviceMemoryMonitor, FakeNvml]:
    """Return the monitor of a GPU that has these bytes in use, one reading after the other."""
    readings = itertools.chain(used, itertools.repeat(used[-1]))
    library = FakeNvml(used=lambda: next(readings))
    return DeviceMemoryMonitor([UUID], library), library
