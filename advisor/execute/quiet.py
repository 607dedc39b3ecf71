"""Find out what else runs on the machine, and wait until it is quiet enough to measure on.

The limits are in `rubric/presets.toml`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import psutil

from advisor.ask.context import Context
from advisor.domain.catalogue import QuietLimits
from advisor.domain.machine import THROTTLE_BITS, Machine, MachineActivity, QuietCheck, QuietProblem
from advisor.domain.run_events import QuietChecked
from advisor.probing.nvml import Device

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


def read_activity(
    usable_processors: int,
    gpus: Sequence[Device],
    seconds: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    cpu_seconds: Callable[[], CpuSeconds] = read_cpu_seconds,
) -> MachineActivity:
    start, before, busy = clock(), cpu_seconds(), list[float]()
    while (left := start + seconds - clock()) > 0:
        sleep(min(left, GPU_SAMPLE_SECONDS))
        rates = [gpu.call("nvmlDeviceGetUtilizationRates") for gpu in gpus]
        busiest = max((rate.gpu for rate in rates if rate is not None), default=None)
        busy += [] if busiest is None else [busiest * PERCENT]
    elapsed, after = clock() - start, cpu_seconds()
    total = after.total - before.total
    counted = elapsed > 0 and total > 0
    activity = MachineActivity(
        seconds=elapsed,
        usable_processors=usable_processors,
        idle_processors=(after.idle - before.idle) / elapsed if counted else None,
        stolen_share=(after.stolen - before.stolen) / total if counted else None,
    )
    if not gpus:
        return activity
    bits = _numbers(gpus, "nvmlDeviceGetCurrentClocksThrottleReasons")
    clocks = _numbers(gpus, "nvmlDeviceGetClockInfo", "NVML_CLOCK_SM")
    temperatures = _numbers(gpus, "nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU")
    processes = [gpu.processes("nvmlDeviceGetComputeRunningProcesses") for gpu in gpus]
    return msgspec.structs.replace(
        activity,
        gpu_processes=tuple(itertools.chain.from_iterable(processes)),
        gpu_busy_share=statistics.fmean(busy) if busy else None,
        sm_clock_mhz=min(clocks, default=None),
        temperature_c=max(temperatures, default=None),
        clocks_held_down=any(each & THROTTLE_BITS for each in bits) if bits else None,
    )


def _numbers(gpus: Sequence[Device], function: str, *constants: str) -> list[int]:
    found = [gpu.number(function, *constants) for gpu in gpus]
    return [each for each in found if each is not None]


#: Observes the machine for some seconds.
ReadActivity: TypeAlias = Callable[[float], MachineActivity]


def activity_reader(machine: Machine, gpus: Sequence[str], context: Context) -> ReadActivity:
    """Return a function that observes the processors, and the GPUs with these UUIDs."""
    devices, usable = [Device.of(gpu) for gpu in gpus], machine.cpu.usable_processors
    return lambda seconds: read_activity(usable, devices, seconds, context.clock, context.sleep)


def check_now(read: ReadActivity, limits: QuietLimits, seconds: float | None = None) -> QuietCheck:
    activity = read(limits.sample_seconds if seconds is None else seconds)
    return QuietCheck(activity=activity, problems=find_problems(activity, limits))


def find_problems(activity: MachineActivity, limits: QuietLimits) -> tuple[QuietProblem, ...]:
    """Return no problem for a figure that the machine does not report."""
    needed = activity.usable_processors * (1 - limits.most_busy_share)
    found: dict[QuietProblem, bool] = {
        # A cgroup may allow fewer processors than the host has: others may keep the rest busy.
        "cpu-busy": activity.idle_processors is not None and activity.idle_processors < needed,
        "cpu-stolen": (activity.stolen_share or 0.0) > limits.most_stolen_share,
        "gpu-processes": bool(activity.gpu_processes),
        "gpu-busy": (activity.gpu_busy_share or 0.0) > limits.most_gpu_busy_share,
        "gpu-clocks-held-down": bool(activity.clocks_held_down),
    }
    return tuple(problem for problem, applies in found.items() if applies)


def wait_until_quiet(
    read: ReadActivity, limits: QuietLimits, allowed_seconds: float, clock: Callable[[], float]
) -> Iterator[QuietChecked]:
    """Yield the first check, each one whose problems differ from those before it, and the last."""
    check, reported = check_now(read, limits), None
    # The first observation is made in any case, so it is not waiting.
    start, waited = clock(), 0.0
    while True:
        check = msgspec.structs.replace(
            check, waited_seconds=waited, allowed_seconds=allowed_seconds
        )
        left = allowed_seconds - waited
        waits = bool(check.problems) and left > 0
        if not waits or check.problems != reported:
            yield QuietChecked(check=check, waits=waits)
        if not waits:
            return
        reported = check.problems
        check = check_now(read, limits, min(limits.waiting_sample_seconds, left))
        waited = clock() - start
