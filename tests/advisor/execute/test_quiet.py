"""What else runs on the machine, what of it disturbs, and waiting until it does not."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Sequence

import builders
import psutil
import pytest
from fake_clock import FakeClock
from nvml import UUID, FakeNvml, gpu_process

from advisor.domain.machine import GpuProcess, MachineActivity
from advisor.domain.run_events import QuietChecked
from advisor.execute import quiet
from advisor.probing.nvml import Device
from advisor.report.formatting import describe_check

QUIET = MachineActivity(seconds=1.0, usable_processors=2, idle_processors=2.0, stolen_share=0.0)
BUSY = builders.replace(QUIET, idle_processors=0.9)
LIMITS = builders.shipped_catalogue().presets.quiet


class CpuTimes(types.SimpleNamespace):
    """The seconds of one processor, as psutil reports them; their sum is that of all fields."""

    def __iter__(self) -> Iterator[float]:
        return iter(vars(self).values())


LINUX = CpuTimes(
    user=50.0, system=4.0, idle=20.0, iowait=10.0, steal=6.0, guest=7.0, guest_nice=3.0
)
ELSEWHERE = CpuTimes(user=50.0, system=4.0, idle=20.0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # Guests are counted in `user`, too.
        (LINUX, quiet.CpuSeconds(idle=30.0, stolen=6.0, total=90.0)),
        (ELSEWHERE, quiet.CpuSeconds(idle=20.0, stolen=0.0, total=74.0)),
    ],
)
def test_the_seconds_of_the_processors_are_counted_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, times: CpuTimes, expected: quiet.CpuSeconds
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1}, raising=False)
    monkeypatch.setattr(psutil, "cpu_times", lambda *, percpu: [ELSEWHERE, times] * percpu)
    assert quiet.read_cpu_seconds() == expected


def read(nvml: FakeNvml | None = None, gpus: int = 1, processors: int = 4) -> MachineActivity:
    """Return the load of two usable of `processors` processors over 0.9 s; a quarter is busy."""
    clock = FakeClock()

    def cpu_seconds() -> quiet.CpuSeconds:
        total = clock.perf_counter() * processors
        return quiet.CpuSeconds(idle=total * 0.75, stolen=total * 0.1, total=total)

    devices = [Device.of(UUID, nvml)] * gpus if nvml else []
    return quiet.read_activity(2, devices, 0.9, clock.perf_counter, clock.sleep, cpu_seconds)


def test_idle_processors_are_counted_over_the_interval() -> None:
    load = read()
    assert load.idle_processors == pytest.approx(3.0)
    assert load.stolen_share == pytest.approx(0.1)
    assert load.usable_processors == 2
    assert load.seconds == pytest.approx(0.9)


def test_what_no_processor_counts_is_unknown() -> None:
    load = read(processors=0)
    assert (load.idle_processors, load.stolen_share) == (None, None)


@pytest.mark.parametrize(
    "absent",
    [
        ["nvmlInit"],
        [
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetTemperature",
            "nvmlDeviceGetClockInfo",
        ],
    ],
    ids=["cannot be opened", "supports nothing"],
)
def test_what_a_gpu_does_not_report_is_unknown(absent: list[str]) -> None:
    assert read(FakeNvml(absent=absent)) == read()


def test_the_busiest_the_slowest_and_the_hottest_of_several_gpus_count() -> None:
    shares, clocks, degrees = [10, 70, 50, 10] * 2, iter([1200, 1980]), iter([40, 80])
    rates = iter([types.SimpleNamespace(gpu=share, memory=3) for share in shares])
    nvml = FakeNvml(
        nvmlDeviceGetUtilizationRates=lambda _: next(rates),
        nvmlDeviceGetClockInfo=lambda *_: next(clocks),
        nvmlDeviceGetTemperature=lambda *_: next(degrees),
        nvmlDeviceGetComputeRunningProcesses=[gpu_process(0)],
        nvmlDeviceGetCurrentClocksThrottleReasons=0x40,
    )
    load = read(nvml, gpus=2)
    assert load.gpu_busy_share == pytest.approx(0.6)
    assert (load.sm_clock_mhz, load.temperature_c) == (1200, 80)
    assert (len(load.gpu_processes), load.clocks_held_down) == (2, True)


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, ()),
        ({"idle_processors": 0.9}, ("cpu-busy",)),
        # A cgroup with two of 64 processors, on a host whose other processors are idle.
        ({"idle_processors": 30.0}, ()),
        ({"idle_processors": None, "stolen_share": None}, ()),
        ({"stolen_share": 0.2}, ("cpu-stolen",)),
        # As much as is allowed.
        ({"stolen_share": LIMITS.most_stolen_share}, ()),
        ({"gpu_busy_share": LIMITS.most_gpu_busy_share}, ()),
        ({"idle_processors": 2 * (1 - LIMITS.most_busy_share)}, ()),
        ({"gpu_processes": (GpuProcess(pid=1, memory_bytes=None, name=None),)}, ("gpu-processes",)),
        ({"gpu_busy_share": 0.5}, ("gpu-busy",)),
        ({"gpu_busy_share": 0.0, "temperature_c": 40, "clocks_held_down": False}, ()),
        ({"clocks_held_down": True, "temperature_c": 90}, ("gpu-clocks-held-down",)),
    ],
)
def test_what_disturbs_is_found(changes: dict[str, object], problems: tuple[str, ...]) -> None:
    check = quiet.check_now(lambda _: builders.replace(QUIET, **changes), LIMITS)
    assert check.problems == problems
    assert (describe_check(check, waits=False) is None) == (not problems)


def wait(
    loads: Sequence[MachineActivity], allowed_seconds: float
) -> tuple[list[QuietChecked], float]:
    """Return the checks of a machine with these loads, and the seconds that they took."""
    clock, left = FakeClock(), list(loads)

    def read(seconds: float) -> MachineActivity:
        clock.advance(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    checks = list(quiet.wait_until_quiet(read, LIMITS, allowed_seconds, clock.perf_counter))
    return checks, clock.perf_counter()


SAMPLE, WAITING = LIMITS.sample_seconds, LIMITS.waiting_sample_seconds


@pytest.mark.parametrize(
    ("loads", "allowed", "waits", "waited"),
    [
        pytest.param([QUIET], 0.0, [False], 0.0, id="quiet, without a limit"),
        pytest.param([BUSY], 0.0, [False], 0.0, id="busy, without a limit"),
        pytest.param([QUIET], 300.0, [False], 0.0, id="quiet"),
        pytest.param([BUSY, BUSY, BUSY, QUIET], 300.0, [True, False], 3 * WAITING, id="later"),
        pytest.param([BUSY], 12.0, [True, False], 12.0, id="busy up to the limit"),
    ],
)
def test_waiting_ends_when_the_machine_is_quiet_or_at_the_limit(
    loads: list[MachineActivity], allowed: float, waits: list[bool], waited: float
) -> None:
    checks, seconds = wait(loads, allowed)
    assert [checked.waits for checked in checks] == waits
    assert checks[-1].check.problems == quiet.find_problems(loads[-1], LIMITS)
    assert checks[-1].check.waited_seconds == pytest.approx(waited)
    assert seconds == pytest.approx(SAMPLE + waited)
