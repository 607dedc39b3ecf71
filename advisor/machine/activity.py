"""Read what else runs on the machine: how many processors are idle, and the load of one GPU."""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import psutil

from advisor.domain.machine import THROTTLE_BITS, MachineActivity
from advisor.machine.gpus import DeviceReader

#: NVML reports how busy a GPU was over the last sixth of a second or the last second.
GPU_SAMPLE_SECONDS = 0.25
PERCENT = 0.01


class CpuSeconds(NamedTuple):
    """Seconds of all usable processors together since the machine was started."""

    idle: float
    stolen: float
    total: float


def read_cpu_seconds() -> CpuSeconds:
    """Return the seconds of the processors in this process's affinity mask."""
    each = psutil.cpu_times(percpu=True)
    with contextlib.suppress(AttributeError, IndexError):
        each = [each[number] for number in sorted(os.sched_getaffinity(0))]
    # Linux counts guests within user and nice.
    totals = [
        sum(one) - getattr(one, "guest", 0.0) - getattr(one, "guest_nice", 0.0) for one in each
    ]
    return CpuSeconds(
        idle=sum(one.idle + getattr(one, "iowait", 0.0) for one in each),
        stolen=sum(getattr(one, "steal", 0.0) for one in each),
        total=sum(totals),
    )


class ActivityReader:
    """Reads the load of the processors and, if one is measured, of a GPU."""

    def __init__(
        self,
        usable_processors: int,
        gpu: str | None,
        *,
        nvml: Any | None = None,  # noqa: ANN401 - the module pynvml, or a fake
        cpu_seconds: Callable[[], CpuSeconds] = read_cpu_seconds,
    ) -> None:
        """Open the GPU with the UUID `gpu`, unless it is None."""
        self._usable, self._cpu_seconds = usable_processors, cpu_seconds
        self._gpu = _open_gpu(gpu, nvml or importlib.import_module("pynvml")) if gpu else None

    def read(
        self, seconds: float, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> MachineActivity:
        """Return the load over the next `seconds`."""
        start, before, busy = clock(), self._cpu_seconds(), []
        while (left := start + seconds - clock()) > 0:
            sleep(min(left, GPU_SAMPLE_SECONDS))
            share = self._gpu_busy_share()
            busy += [share] if share is not None else []
        elapsed, after = clock() - start, self._cpu_seconds()
        total = after.total - before.total
        counted = elapsed > 0 and total > 0
        load = MachineActivity(
            seconds=elapsed,
            usable_processors=self._usable,
            idle_processors=(after.idle - before.idle) / elapsed if counted else None,
            stolen_share=(after.stolen - before.stolen) / total if counted else None,
        )
        return self._with_gpu(load, statistics.fmean(busy) if busy else None)

    def _gpu_busy_share(self) -> float | None:
        rates = self._gpu.call("nvmlDeviceGetUtilizationRates") if self._gpu else None
        return rates.gpu * PERCENT if rates is not None else None

    def _with_gpu(self, load: MachineActivity, busy_share: float | None) -> MachineActivity:
        if self._gpu is None:
            return load
        bits = self._gpu.number("nvmlDeviceGetCurrentClocksThrottleReasons")
        return msgspec.structs.replace(
            load,
            gpu_processes=self._gpu.processes("nvmlDeviceGetComputeRunningProcesses"),
            gpu_busy_share=busy_share,
            sm_clock_mhz=self._gpu.number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            temperature_c=self._gpu.number("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
            clocks_held_down=bool(bits & THROTTLE_BITS) if bits is not None else None,
        )


def _open_gpu(uuid: str, library: Any) -> DeviceReader | None:  # noqa: ANN401 - as above
    try:
        library.nvmlInit()
        return DeviceReader(library, library.nvmlDeviceGetHandleByUUID(uuid))
    except library.NVMLError:
        return None
