"""Readings of the load come from the kernel's counters and from NVML."""

import types

import pytest
from fake_clock import FakeClock
from nvml import UUID, FakeNvml

from advisor.ask.detection import ActivityReader, CpuSeconds, read_cpu_seconds
from advisor.domain.machine import MachineActivity


def read(
    clock: FakeClock, *, idle_share: float = 1.0, processors: int = 4, nvml: FakeNvml | None = None
) -> MachineActivity:
    """Return the load of two usable of `processors` processors over one second."""

    def cpu_seconds() -> CpuSeconds:
        total = clock.perf_counter() * processors
        return CpuSeconds(idle=total * idle_share, stolen=total * 0.1, total=total)

    gpu = UUID if nvml else None
    reader = ActivityReader(2, [gpu] if gpu else (), nvml=nvml, cpu_seconds=cpu_seconds)
    return reader.read(1.0, clock.perf_counter, clock.sleep)


def test_idle_processors_are_counted_over_the_interval() -> None:
    load = read(FakeClock(), idle_share=0.75)
    assert load.idle_processors == pytest.approx(3.0)
    assert load.stolen_share == pytest.approx(0.1)
    assert load.usable_processors == 2
    assert load.seconds == pytest.approx(1.0)


def test_a_gpu_reports_its_processes_and_its_state() -> None:
    process = types.SimpleNamespace(pid=0, usedGpuMemory=1 << 30)
    nvml = FakeNvml(
        nvmlDeviceGetUtilizationRates=types.SimpleNamespace(gpu=40, memory=3),
        nvmlDeviceGetComputeRunningProcesses=[process],
        nvmlDeviceGetCurrentClocksThrottleReasons=0x40,
    )
    load = read(FakeClock(), nvml=nvml)
    assert load.gpu_busy_share == pytest.approx(0.4)
    assert len(load.gpu_processes) == 1
    assert load.temperature_c == 40
    assert load.sm_clock_mhz == 1980
    assert load.clocks_held_down is True


def test_what_a_gpu_does_not_report_is_unknown() -> None:
    absent = [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetClockInfo",
    ]
    load = read(FakeClock(), nvml=FakeNvml(absent=absent))
    assert load.gpu_busy_share is None
    assert load.gpu_processes == ()
    assert load.clocks_held_down is None
    assert load.temperature_c is None


def test_a_gpu_that_cannot_be_opened_leaves_the_processors() -> None:
    load = read(FakeClock(), nvml=FakeNvml(absent=["nvmlInit"]))
    assert load.gpu_busy_share is None
    assert load.idle_processors is not None


def test_this_machine_counts_its_processors() -> None:
    before = read_cpu_seconds()
    assert before.total >= before.idle >= 0.0


def test_the_busiest_of_several_gpus_decides() -> None:
    rates = iter([types.SimpleNamespace(gpu=share, memory=3) for share in (10, 70) * 4])
    process = types.SimpleNamespace(pid=0, usedGpuMemory=1 << 30)
    nvml = FakeNvml(
        nvmlDeviceGetUtilizationRates=lambda: next(rates),
        nvmlDeviceGetComputeRunningProcesses=[process],
    )
    clock = FakeClock()
    cpu = CpuSeconds(idle=0.0, stolen=0.0, total=0.0)
    reader = ActivityReader(2, [UUID, UUID], nvml=nvml, cpu_seconds=lambda: cpu)
    load = reader.read(1.0, clock.perf_counter, clock.sleep)
    assert load.gpu_busy_share == pytest.approx(0.7)
    assert len(load.gpu_processes) == 2
