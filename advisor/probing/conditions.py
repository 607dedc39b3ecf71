"""What the machine went through while a visit ran, seen from outside the workers.

On the processor the kernel's counters are read before and after: time stolen by the hypervisor,
time that the worker's threads waited for a processor, time that the control groups were throttled.
On a GPU a thread asks the management library ten times a second for clocks, temperature, power and
the reasons for which clocks are held down.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib
import pathlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.domain.run_events import Conditions
from advisor.system.cgroups import ControlGroups

NANOSECONDS, MILLI = 1e-9, 1e-3
PERIOD_SECONDS = 0.1
#: Ten minutes.
KEPT_SAMPLES = 6000
#: Bits of NVML's clocks-event reasons: hardware slowdown, software and hardware thermal slowdown,
#: power brake; and the power limit.
HELD_DOWN = 0x8 | 0x20 | 0x40 | 0x80
POWER_CAPPED = 0x4


@dataclasses.dataclass(frozen=True)
class CpuReading:
    """The kernel's counters at one moment; None for what this kernel does not count."""

    at: float
    stolen_ticks: int
    all_ticks: int
    #: Nanoseconds that each thread has waited for a processor, by its number.
    queued: Mapping[str, int] | None
    throttled_seconds: float | None


@dataclasses.dataclass(frozen=True)
class GpuSample:
    """What the management library said at one moment; None for what this GPU does not say."""

    at: float
    sm_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    clock_event_bits: int


class GpuWatch:
    """Samples one GPU from a thread of the advisor, never from a worker: asking takes the driver's lock."""

    def __init__(self, uuid: str, nvml: Any | None = None) -> None:  # noqa: ANN401 - pynvml, or what stands in for it
        self._nvml = nvml or importlib.import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        self._samples: collections.deque[GpuSample] = collections.deque(maxlen=KEPT_SAMPLES)
        #: What the GPU runs at unless something holds it down; None where it has no such clock.
        self.default_sm_clock_mhz: int | None = self._ask(
            "nvmlDeviceGetDefaultApplicationsClock", self._nvml.NVML_CLOCK_SM
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(PERIOD_SECONDS):
                self._samples.append(self.sample())

        thread = threading.Thread(target=watch, name="gpu-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def sample(self) -> GpuSample:
        """Return what the GPU says now."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        return GpuSample(
            at=time.monotonic(),
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            temperature_c=self._ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
            power_w=power * MILLI if power is not None else None,
            clock_event_bits=self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0,
        )

    def energy_joules(self) -> float | None:
        """Return the energy used since the driver was loaded; None where the GPU does not count it."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return millijoules * MILLI if millijoules is not None else None

    def pcie_bytes_per_second(self) -> float | None:
        """Return what goes over the bus now, in both directions, which takes some 40 ms; None where the GPU does not say."""
        counters = self._nvml.NVML_PCIE_UTIL_TX_BYTES, self._nvml.NVML_PCIE_UTIL_RX_BYTES
        kilobytes = [self._ask("nvmlDeviceGetPcieThroughput", counter) for counter in counters]
        return None if None in kilobytes else sum(each or 0 for each in kilobytes) * 1e3

    def between(self, start: float, end: float) -> list[GpuSample]:
        """Return the samples of an interval, or one taken now if it was too short for any."""
        return [sample for sample in list(self._samples) if start <= sample.at <= end] or [
            self.sample()
        ]

    def _ask(self, function: str, *arguments: Any) -> int | None:  # noqa: ANN401 - NVML's constants
        """Return NVML's answer; None where it has none for this GPU."""
        try:
            return int(getattr(self._nvml, function)(self._handle, *arguments))
        except self._nvml.NVMLError:
            return None


class Guard:
    """Says under which conditions something ran."""

    def __init__(
        self,
        gpu: GpuWatch | None = None,
        *,
        proc: pathlib.Path = pathlib.Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpu = gpu
        self._proc = proc
        self._groups = ControlGroups(proc)
        self._clock = clock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Watch the GPU, if there is one, while the block runs."""
        with self._gpu.running() if self._gpu else contextlib.nullcontext():
            yield

    def energy_joules(self) -> float | None:
        """Return the energy the GPU has used so far; None where nobody counts it."""
        return self._gpu.energy_joules() if self._gpu else None

    def read(self, process: int) -> CpuReading:
        """Return the counters as of now, those of `process` among them."""
        # cpu user nice system idle iowait irq softirq steal guest guest_nice: guests are counted in
        # user already
        ticks = [
            int(field)
            for field in (self._proc / "stat")
            .read_text(encoding="ascii")
            .split("\n", 1)[0]
            .split()[1:9]
        ]
        return CpuReading(
            at=self._clock(),
            stolen_ticks=ticks[7],
            all_ticks=sum(ticks),
            queued=self._queued(process),
            throttled_seconds=self._groups.throttled_seconds(),
        )

    def conditions_since(self, before: CpuReading, process: int) -> Conditions:
        """Return what `process` and the machine went through since `before`."""
        now = self.read(process)
        seconds = max(now.at - before.at, NANOSECONDS)
        ticks = now.all_ticks - before.all_ticks
        queued = queued_seconds(before.queued, now.queued)
        conditions = Conditions(
            seconds=seconds,
            stolen_share=(now.stolen_ticks - before.stolen_ticks) / ticks if ticks > 0 else 0.0,
            queued_share=queued / seconds if queued is not None else None,
            throttled_seconds=difference(now.throttled_seconds, before.throttled_seconds),
        )
        return (
            conditions
            if self._gpu is None
            else with_gpu(conditions, self._gpu, self._gpu.between(before.at, now.at))
        )

    def _queued(self, process: int) -> dict[str, int] | None:
        """Return how long each thread of `process` has waited for a processor: the second field of `schedstat`."""
        try:
            return {
                thread.name: waited_nanoseconds(thread)
                for thread in (self._proc / str(process) / "task").iterdir()
            }
        except OSError:
            return None


def waited_nanoseconds(thread: pathlib.Path) -> int:
    """Return how long a thread has waited for a processor; 0 for one that has ended meanwhile, or where the kernel does not count."""
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def queued_seconds(before: Mapping[str, int] | None, now: Mapping[str, int] | None) -> float | None:
    """Return how long threads have waited meanwhile; None where nobody knows.

    Only threads seen both times count: the kernel's list may leave one out while others end, and
    all that it has ever waited would be taken for the time in between.
    """
    if before is None or now is None:
        return None
    return (
        sum(max(now[thread] - before[thread], 0) for thread in now.keys() & before.keys())
        * NANOSECONDS
    )


def difference(now: float | None, before: float | None) -> float | None:
    """Return by how much a counter has grown; None where there is none."""
    return now - before if now is not None and before is not None else None


def with_gpu(conditions: Conditions, watch: GpuWatch, samples: Sequence[GpuSample]) -> Conditions:
    """Add what the GPU said meanwhile: medians, and the shares of the samples in which clocks were held down."""
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    temperatures = [sample.temperature_c for sample in samples if sample.temperature_c is not None]
    powers = [sample.power_w for sample in samples if sample.power_w is not None]
    clock = statistics.median_low(clocks) if clocks else None
    default = watch.default_sm_clock_mhz
    return Conditions(
        seconds=conditions.seconds,
        stolen_share=conditions.stolen_share,
        queued_share=conditions.queued_share,
        throttled_seconds=conditions.throttled_seconds,
        sm_clock_mhz=clock,
        sm_clock_share=clock / default if clock and default else None,
        temperature_c=max(temperatures, default=None),
        power_w=statistics.median(powers) if powers else None,
        held_down_share=statistics.fmean(
            bool(sample.clock_event_bits & HELD_DOWN) for sample in samples
        ),
        power_capped_share=statistics.fmean(
            bool(sample.clock_event_bits & POWER_CAPPED) for sample in samples
        ),
    )
