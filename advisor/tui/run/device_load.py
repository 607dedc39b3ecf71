"""How busy the measured device is, in one line.

For a look now and then from a thread: NVIDIA's library may take its time.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import psutil

GIBIBYTE = 2**30


def describe_processor() -> str:
    """Return load and memory of this machine."""
    memory = psutil.virtual_memory()
    used, total = (memory.total - memory.available) / GIBIBYTE, memory.total / GIBIBYTE
    return f"CPU  busy {psutil.cpu_percent():.0f} %  memory {used:.1f}/{total:.1f} GiB"


def describe_gpu(uuid: str, nvml: Any | None = None) -> str:  # noqa: ANN401 - pynvml, or what stands in for it
    """Return load, memory, temperature and clock of a GPU, each only if it can be read."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as problem:
        return f"GPU  {problem}"
    words = [f"GPU  mem {memory.used / GIBIBYTE:.1f}/{memory.total / GIBIBYTE:.0f} GiB"]
    with contextlib.suppress(nvml.NVMLError):
        words.append(f"util {nvml.nvmlDeviceGetUtilizationRates(handle).gpu} %")
    with contextlib.suppress(nvml.NVMLError):
        words.append(
            f"{nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)} \N{DEGREE SIGN}C"
        )
    with contextlib.suppress(nvml.NVMLError):
        words.append(f"{nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)} MHz")
    return "  ".join(words)
