"""What the machine goes through while something runs, read from files and a library that say what a test lets them say."""

from __future__ import annotations

import os
import pathlib
import threading
from typing import Any

import pytest
import workers
from nvml import UUID, Nvml

from advisor import catalogue
from advisor.domain.run_events import Conditions
from advisor.pipeline import visit_quality
from advisor.probing import conditions as guard
from advisor.probing.conditions import GpuWatch, Guard

PROCESS = 4711
HEAT, POWER_LIMIT, IDLE = 0x20, 0x4, 0x1
RULES = catalogue.load().presets.guard


class Kernel:
    """`/proc` and the control group of a machine whose clock goes on only when told."""

    def __init__(self, place: pathlib.Path) -> None:
        self.proc, self.control_group = place / "proc", place / "cgroup"
        self.control_group.mkdir()
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "cgroup").write_text("0::/\n")
        (self.proc / "self" / "mountinfo").write_text(
            f"41 31 0:38 / {self.control_group} rw - cgroup2 cgroup2 rw\n"
        )
        self.now = 100.0
        self.user_ticks, self.stolen_ticks, self.guest_ticks = 1000, 0, 0
        self.waited = {PROCESS: 0}
        self.throttled_usec: int | None = 0
        self.write()

    def write(self) -> None:
        """Write what the kernel would show now."""
        self.proc.mkdir(exist_ok=True)
        ticks = f"{self.user_ticks} 0 0 5000 0 0 0 {self.stolen_ticks} {self.guest_ticks} 0"
        (self.proc / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\n")
        for thread, nanoseconds in self.waited.items():
            task = self.proc / str(PROCESS) / "task" / str(thread)
            task.mkdir(parents=True, exist_ok=True)
            (task / "schedstat").write_text(f"123456 {nanoseconds} 789\n")
        if self.throttled_usec is not None:
            text = f"usage_usec 5\nnr_throttled 1\nthrottled_usec {self.throttled_usec}\n"
            (self.control_group / "cpu.stat").write_text(text)

    def pass_by(self, seconds: float, **changes: Any) -> None:
        """Let time pass and the counters become what is given."""
        self.now += seconds
        self.user_ticks += round(200 * seconds)
        for name, value in changes.items():
            setattr(self, name, value)
        self.write()


@pytest.fixture
def kernel(tmp_path: pathlib.Path) -> Kernel:
    return Kernel(tmp_path)


def watching(kernel: Kernel, gpu: GpuWatch | None = None) -> Guard:
    return Guard(gpu, proc=kernel.proc, clock=lambda: kernel.now)


def conditions_of(
    kernel: Kernel, seconds: float = 1.0, gpu: GpuWatch | None = None, **changes: Any
) -> Conditions:
    """Return what the guard says about a second in which the counters became what is given."""
    guard = watching(kernel, gpu)
    before = guard.read(PROCESS)
    kernel.pass_by(seconds, **changes)
    return guard.conditions_since(before, PROCESS)


def test_a_second_in_which_nothing_happened(kernel: Kernel) -> None:
    assert conditions_of(kernel) == Conditions(
        seconds=1.0, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0
    )


def test_stolen_time_is_a_share_of_all_processors_time(kernel: Kernel) -> None:
    assert conditions_of(kernel, stolen_ticks=50).stolen_share == pytest.approx(50 / 250)


def test_guests_are_not_counted_twice(kernel: Kernel) -> None:
    assert conditions_of(kernel, stolen_ticks=50, guest_ticks=10_000).stolen_share == pytest.approx(
        50 / 250
    )


def test_waiting_for_a_processor_is_the_sum_over_the_threads(kernel: Kernel) -> None:
    kernel.waited = {PROCESS: 5_000_000, PROCESS + 1: 7_000_000}
    kernel.write()
    conditions = conditions_of(
        kernel, seconds=0.5, waited={PROCESS: 105_000_000, PROCESS + 1: 57_000_000}
    )
    assert conditions.queued_share == pytest.approx(0.3)


def test_a_thread_that_ends_meanwhile_does_not_make_the_time_negative(kernel: Kernel) -> None:
    kernel.waited = {PROCESS: 0, PROCESS + 1: 10**9}
    kernel.write()
    guard = watching(kernel)
    before = guard.read(PROCESS)
    (kernel.proc / str(PROCESS) / "task" / str(PROCESS + 1) / "schedstat").unlink()
    kernel.waited = {PROCESS: 0}
    kernel.pass_by(1.0)
    assert guard.conditions_since(before, PROCESS).queued_share == 0.0


def test_a_thread_that_the_first_look_missed_has_not_waited_all_its_life_since(
    kernel: Kernel,
) -> None:
    assert conditions_of(
        kernel, waited={PROCESS: 10**8, PROCESS + 1: 10**12}
    ).queued_share == pytest.approx(0.1)


def test_throttling_of_the_control_group_is_told_in_seconds(kernel: Kernel) -> None:
    assert conditions_of(kernel, throttled_usec=12_000).throttled_seconds == pytest.approx(0.012)


def test_what_the_kernel_does_not_count_is_not_known(kernel: Kernel) -> None:
    (kernel.control_group / "cpu.stat").unlink()
    kernel.throttled_usec = None
    assert conditions_of(kernel).throttled_seconds is None
    (kernel.control_group / "cpu.stat").write_text("usage_usec 5\n")
    assert conditions_of(kernel).throttled_seconds is None


def test_a_process_that_is_gone_has_waited_for_nobody_knows_how_long(kernel: Kernel) -> None:
    guard = watching(kernel)
    before = guard.read(PROCESS + 99)
    assert before.queued is None
    assert guard.conditions_since(before, PROCESS + 99).queued_share is None


def test_two_looks_at_the_same_moment_divide_by_nothing(kernel: Kernel) -> None:
    assert conditions_of(kernel, seconds=0.0).stolen_share == 0.0


# The GPU


def test_the_gpu_says_its_clock_temperature_power_and_why_it_is_held_down(kernel: Kernel) -> None:
    nvml = Nvml(
        nvmlDeviceGetClockInfo=1485,
        nvmlDeviceGetTemperature=81,
        nvmlDeviceGetCurrentClocksThrottleReasons=HEAT | POWER_LIMIT,
    )
    conditions = conditions_of(kernel, gpu=GpuWatch(UUID, nvml))
    assert (conditions.sm_clock_mhz, conditions.temperature_c) == (1485, 81)
    assert (conditions.sm_clock_share, conditions.power_w) == pytest.approx((0.75, 200.0))
    assert (conditions.held_down_share, conditions.power_capped_share) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("bits", "fit"),
    [
        (0, True),
        (IDLE, True),
        (POWER_LIMIT, True),
        (0x8, False),
        (0x20, False),
        (0x40, False),
        (0x80, False),
        (HEAT | POWER_LIMIT, False),
    ],
)
def test_a_throttled_gpu_is_unfit_and_one_at_its_power_limit_is_not(
    kernel: Kernel, bits: int, fit: bool
) -> None:
    conditions = conditions_of(
        kernel, gpu=GpuWatch(UUID, Nvml(nvmlDeviceGetCurrentClocksThrottleReasons=bits))
    )
    assert (visit_quality.find_fault(conditions, RULES) is None) is fit


@pytest.mark.parametrize(
    "absent",
    [
        "nvmlDeviceGetDefaultApplicationsClock",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetTotalEnergyConsumption",
    ],
)
def test_what_this_gpu_does_not_say_is_not_known_and_no_fault(kernel: Kernel, absent: str) -> None:
    watch = GpuWatch(UUID, Nvml(absent=[absent]))
    conditions = conditions_of(kernel, gpu=watch)
    assert visit_quality.find_fault(conditions, RULES) is None
    known = {
        "nvmlDeviceGetDefaultApplicationsClock": conditions.sm_clock_share,
        "nvmlDeviceGetClockInfo": conditions.sm_clock_mhz,
        "nvmlDeviceGetTemperature": conditions.temperature_c,
        "nvmlDeviceGetPowerUsage": conditions.power_w,
        "nvmlDeviceGetTotalEnergyConsumption": watch.energy_joules(),
    }
    if absent == "nvmlDeviceGetClockInfo":
        known.pop(
            "nvmlDeviceGetDefaultApplicationsClock"
        )  # a share of what is not known is not known either
    assert [name for name, value in known.items() if value is None] == [
        name for name in known if name == absent
    ]


def test_traffic_on_the_bus_is_that_of_both_directions() -> None:
    assert GpuWatch(
        UUID, Nvml(nvmlDeviceGetPcieThroughput=1500)
    ).pcie_bytes_per_second() == pytest.approx(3e6)
    assert (
        GpuWatch(UUID, Nvml(absent=["nvmlDeviceGetPcieThroughput"])).pcie_bytes_per_second() is None
    )


def test_energy_is_told_in_joules(kernel: Kernel) -> None:
    assert watching(kernel, GpuWatch(UUID, Nvml())).energy_joules() == pytest.approx(5000.0)
    assert watching(kernel).energy_joules() is None


def test_the_samples_of_a_visit_are_those_taken_meanwhile(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PERIOD_SECONDS", 0.001)
    nvml = Nvml(nvmlDeviceGetClockInfo=1980)
    watch = GpuWatch(UUID, nvml)
    with watching(kernel, watch).running():
        workers.wait_until(lambda: nvml.asked.count("nvmlDeviceGetClockInfo") > 5)
        assert [thread.name for thread in threading.enumerate()].count("gpu-watch") == 1
    assert "gpu-watch" not in [thread.name for thread in threading.enumerate()]
    samples = watch.between(0.0, float("inf"))
    assert len(samples) >= 5
    assert watch.between(samples[1].at, samples[3].at) == samples[1:4]


def test_a_visit_too_short_for_a_sample_gets_one() -> None:
    watch = GpuWatch(UUID, Nvml())
    assert len(watch.between(1.0, 1.01)) == 1


def test_the_machine_that_runs_these_tests_can_be_read() -> None:
    guard = Guard()
    before = guard.read(os.getpid())
    conditions = guard.conditions_since(before, os.getpid())
    assert conditions.seconds > 0
    assert 0 <= conditions.stolen_share <= 1
