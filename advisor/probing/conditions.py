"""Record the conditions of the machine while calls are timed.

On the CPU, counters of the kernel are read before and after: steal time, run-queue delay of the
worker's threads, and cgroup throttling. On a GPU, a thread samples NVML ten times a second: the
clock and the reasons for a reduced one.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from advisor.domain.catalogue import VisitQualityLimits
from advisor.domain.machine import THROTTLE_BITS
from advisor.domain.run_events import Conditions
from advisor.probing.cgroups import NANOSECONDS, PROC, Cgroups
from advisor.probing.device_memory import increase
from advisor.probing.nvml import MILLI, Device, repeating
from probes.events import Visited

PERIOD_SECONDS = 0.1
#: Samples of ten minutes.
MAX_SAMPLES = 6000


@dataclasses.dataclass(frozen=True)
class CpuReading:
    """The kernel's counters at one moment; None for a counter that the kernel does not have."""

    at: float
    steal_ticks: int
    total_ticks: int
    #: Nanoseconds on the run queue, by thread id.
    run_queue_delay_ns: Mapping[str, int] | None
    throttled_seconds: float | None


@dataclasses.dataclass(frozen=True)
class GpuSample:
    """What NVML returned at one moment; None for a value that the GPU does not report."""

    at: float
    sm_clock_mhz: int | None
    clock_event_bits: int


class GpuMonitor:
    """Samples one GPU from a thread of the advisor.

    A worker never samples: NVML takes a lock of the driver.
    """

    def __init__(self, uuid: str, nvml: Any | None = None) -> None:  # noqa: ANN401 - the module pynvml, or a fake
        self._device = Device.of(uuid, nvml)
        self._samples: collections.deque[GpuSample] = collections.deque(maxlen=MAX_SAMPLES)
        #: Default application clock; None on a GPU without one.
        self.default_sm_clock_mhz = self._device.number(
            "nvmlDeviceGetDefaultApplicationsClock", "NVML_CLOCK_SM"
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with repeating(lambda: self._samples.append(self.sample()), PERIOD_SECONDS, "gpu-monitor"):
            yield

    def sample(self) -> GpuSample:
        return GpuSample(
            at=time.monotonic(),
            sm_clock_mhz=self._device.number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            clock_event_bits=self._device.number("nvmlDeviceGetCurrentClocksThrottleReasons") or 0,
        )

    def energy_joules(self) -> float | None:
        """Return the energy used since the driver was loaded; None where the GPU has no counter."""
        millijoules = self._device.number("nvmlDeviceGetTotalEnergyConsumption")
        return millijoules * MILLI if millijoules is not None else None

    def between(self, start: float, end: float) -> list[GpuSample]:
        """Return the samples of an interval; one taken now if the interval has none."""
        return [sample for sample in list(self._samples) if start <= sample.at <= end] or [
            self.sample()
        ]


class ConditionsMonitor:
    def __init__(
        self,
        gpus: Sequence[GpuMonitor] = (),
        *,
        proc: pathlib.Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpus = gpus
        self._proc = proc
        self._cgroups = Cgroups(proc)
        self._clock = clock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as running:
            for gpu in self._gpus:
                running.enter_context(gpu.running())
            yield

    def energy_joules(self) -> float | None:
        each = [gpu.energy_joules() for gpu in self._gpus]
        return sum(joules or 0.0 for joules in each) if each and None not in each else None

    def read_counters(self, pid: int) -> CpuReading:
        line = (self._proc / "stat").read_text(encoding="ascii").split("\n", 1)[0]
        # Fields: cpu user nice system idle iowait irq softirq steal guest guest_nice. The guest
        # fields are left out because user includes them.
        ticks = [int(field) for field in line.split()[1:9]]
        return CpuReading(
            at=self._clock(),
            steal_ticks=ticks[7],
            total_ticks=sum(ticks),
            run_queue_delay_ns=self._run_queue_delays(pid),
            throttled_seconds=self._cgroups.throttled_seconds(),
        )

    def conditions_since(self, before: CpuReading, pid: int) -> Conditions:
        now = self.read_counters(pid)
        seconds = max(now.at - before.at, NANOSECONDS)
        ticks = now.total_ticks - before.total_ticks
        delay = run_queue_delay_seconds(before.run_queue_delay_ns, now.run_queue_delay_ns)
        conditions = Conditions(
            seconds=seconds,
            stolen_share=(now.steal_ticks - before.steal_ticks) / ticks if ticks > 0 else 0.0,
            queued_share=delay / seconds if delay is not None else None,
            throttled_seconds=increase(before.throttled_seconds, now.throttled_seconds),
        )
        if not self._gpus:
            return conditions
        samples = [sample for gpu in self._gpus for sample in gpu.between(before.at, now.at)]
        clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
        clock = statistics.median_low(clocks) if clocks else None
        default = self._gpus[0].default_sm_clock_mhz
        return msgspec.structs.replace(
            conditions,
            sm_clock_share=clock / default if clock and default else None,
            thermal_throttled_share=statistics.fmean(
                bool(sample.clock_event_bits & THROTTLE_BITS) for sample in samples
            ),
        )

    def _run_queue_delays(self, pid: int) -> dict[str, int] | None:
        try:
            return {
                thread.name: read_run_queue_delay(thread)
                for thread in (self._proc / str(pid) / "task").iterdir()
            }
        except OSError:
            return None


def read_run_queue_delay(thread: pathlib.Path) -> int:
    """Return nanoseconds from its `schedstat`; 0 for an ended thread, and without a counter."""
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def run_queue_delay_seconds(
    before: Mapping[str, int] | None, now: Mapping[str, int] | None
) -> float | None:
    """Return the run-queue delay between two readings, in all threads; None if one is missing.

    Only threads in both readings count. The kernel's list can omit a thread while others end; its
    delay since it started would be taken for the delay of the interval.
    """
    if before is None or now is None:
        return None
    threads = now.keys() & before.keys()
    return sum(max(now[thread] - before[thread], 0) for thread in threads) * NANOSECONDS


def find_disturbance(
    visit: Visited | None, conditions: Conditions, limits: VisitQualityLimits
) -> str | None:
    """Return what disturbed the visit. A power limit alone did not: heavy kernels reach it."""
    if conditions.thermal_throttled_share:
        return "the GPU's clocks were held down by heat or a fault"
    clock, queued = conditions.sm_clock_share, conditions.queued_share
    throttled = conditions.throttled_seconds
    if clock is not None and clock < limits.least_clock_share:
        return f"the GPU ran at {clock:.0%} of its default clock"
    if throttled is not None and throttled > limits.most_throttled_seconds:
        return f"the cgroup was throttled for {throttled * 1000:.0f} ms"
    if conditions.stolen_share > limits.most_stolen_share:
        return f"the hypervisor took {conditions.stolen_share:.0%} of the processors' time"
    if queued is not None and queued > limits.most_queued_share:
        return f"other processes made it wait for a processor during {queued:.0%} of the time"
    if visit and visit.host_slowdown and visit.host_slowdown > limits.most_host_slowdown:
        return f"a slow processor made its calls take {visit.host_slowdown:.1f} times as long"
    return None
