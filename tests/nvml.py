"""A fake of NVIDIA's management library (NVML) with settable answers and missing functions."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

UUID = "GPU-1111"


class NVMLError(Exception):
    """The library's exception."""


class FakeNvml:
    """A machine with one GPU; `absent` names the functions that this GPU does not support."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, absent: Iterable[str] = (), **answers: Any) -> None:
        self.absent = set(absent)
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetDefaultApplicationsClock": 1980,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 40,
            "nvmlDeviceGetPowerUsage": 200_000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
            "used": 1 << 30,
            "total": 80 << 30,
            **answers,
        }
        #: Names of the functions called so far.
        self.calls: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self._answer("nvmlInit")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        assert uuid == UUID
        return "the handle"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> types.SimpleNamespace:  # noqa: N802
        assert handle == "the handle"
        used = self._answer("used")
        return types.SimpleNamespace(total=self.answers["total"], free=0, used=used)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)
        return lambda *_: self._answer(name)

    def _answer(self, name: str) -> Any:
        self.calls.append(name)
        if name in self.absent:
            raise NVMLError(f"{name}: Not Supported")
        answer = self.answers.get(name)
        return answer() if callable(answer) else answer
