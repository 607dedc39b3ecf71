"""Format the current load of the measured device as one line.

Call it from a thread: NVML may block.
"""

from __future__ import annotations

import contextlib
import importlib

import psutil

GIBIBYTE = 2**30
SAMPLE_SECONDS = 0.3


def format_cpu_load() -> str:
    """Return CPU utilization over a fraction of a second, load and memory use of this machine."""
    memory = psutil.virtual_memory()
    # Without an interval, the first call in a process returns 0.
    busy, load = psutil.cpu_percent(SAMPLE_SECONDS), psutil.getloadavg()[0]
    used, total = (memory.total - memory.available) / GIBIBYTE, memory.total / GIBIBYTE
    return f"CPU  busy {busy:.0f} %  load {load:.1f}  memory {used:.1f}/{total:.1f} GiB"


def format_gpu_load(uuid: str) -> str:
    """Return memory use, utilization, temperature and clock of a GPU.

    Values that NVML cannot read are left out.
    """
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as problem:
        return f"GPU  {problem}"
    parts = [f"GPU  mem {memory.used / GIBIBYTE:.1f}/{memory.total / GIBIBYTE:.0f} GiB"]
    with contextlib.suppress(nvml.NVMLError):
        parts.append(f"util {nvml.nvmlDeviceGetUtilizationRates(handle).gpu} %")
    with contextlib.suppress(nvml.NVMLError):
        parts.append(
            f"{nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)} \N{DEGREE SIGN}C"
        )
    with contextlib.suppress(nvml.NVMLError):
        parts.append(f"{nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)} MHz")
    return "  ".join(parts)
