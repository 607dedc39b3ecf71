"""The conditions of the machine during visits, and the memory of its GPU."""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import builders
import nvml
import pytest
import sessions
import workers
from fake_clock import FakeClock, no_synchronize, replace_clocks
from nvml import UUID, FakeNvml

from advisor.domain.run_events import Conditions, DeviceMemory, WorkerReported
from advisor.probing import conditions as conditions_module
from advisor.probing import processes
from advisor.probing.conditions import ConditionsMonitor, GpuMonitor, find_disturbance
from advisor.probing.device_memory import DeviceMemoryMonitor, MemoryHeadroom, available_host_bytes
from probes import host, timing
from probes.events import MemoryRead
from probes.shape import Shape

PID, THREAD, LATER = 4711, 4712, 4713
HEAT, POWER_LIMIT, IDLE = 0x20, 0x4, 0x1
RULES = builders.shipped_catalogue().presets.visit_limits
UNDISTURBED = Conditions(seconds=1.0, stolen_share=0.0, queued_share=0.0, throttled_seconds=0.0)


class Kernel:
    """The `/proc`, the cgroup and the clock of a fake machine."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.cgroup.mkdir()
        builders.write_cgroup(self.proc, self.cgroup)
        self.now = 100.0
        self.user_ticks, self.steal_ticks, self.guest_ticks = 1000, 0, 0
        self.run_queue_delay_ns = {PID: 0, THREAD: 0}
        self.throttled_usec: int | None = 0
        self.write()

    def write(self) -> None:
        """Write the counters as the kernel shows them."""
        self.proc.mkdir(exist_ok=True)
        ticks = f"{self.user_ticks} 0 0 5000 0 0 0 {self.steal_ticks} {self.guest_ticks} 0"
        (self.proc / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\n")
        for thread, nanoseconds in self.run_queue_delay_ns.items():
            task = self.proc / str(PID) / "task" / str(thread)
            task.mkdir(parents=True, exist_ok=True)
            (task / "schedstat").write_text(f"123456 {nanoseconds} 789\n")
        if self.throttled_usec is not None:
            text = f"usage_usec 5\nnr_throttled 1\nthrottled_usec {self.throttled_usec}\n"
            (self.cgroup / "cpu.stat").write_text(text)

    def advance(self, seconds: float, **changes: Any) -> None:
        self.now += seconds
        self.user_ticks += round(200 * seconds)
        for name, value in changes.items():
            setattr(self, name, value)
        self.write()


@pytest.fixture
def kernel(tmp_path: pathlib.Path) -> Kernel:
    return Kernel(tmp_path)


def make_monitor(kernel: Kernel, gpu: GpuMonitor | None = None) -> ConditionsMonitor:
    return ConditionsMonitor([gpu] if gpu else (), proc=kernel.proc, clock=lambda: kernel.now)


def conditions_of(
    kernel: Kernel, seconds: float = 1.0, gpu: GpuMonitor | None = None, **changes: Any
) -> Conditions:
    """Return the conditions of a second after which the counters have the given values."""
    monitor = make_monitor(kernel, gpu)
    before = monitor.read_counters(PID)
    kernel.advance(seconds, **changes)
    return monitor.conditions_since(before, PID)


def test_an_undisturbed_second(kernel: Kernel) -> None:
    assert conditions_of(kernel) == UNDISTURBED


@pytest.mark.parametrize(
    ("figure", "changes", "expected"),
    [
        ("stolen_share", {"steal_ticks": 50}, 50 / 250),
        # Guest time is not counted twice.
        ("stolen_share", {"steal_ticks": 50, "guest_ticks": 10_000}, 50 / 250),
        ("stolen_share", {"seconds": 0.0}, 0.0),
        ("throttled_seconds", {"throttled_usec": 12_000}, 0.012),
        (
            "queued_share",
            {"seconds": 0.5, "run_queue_delay_ns": {PID: 10**8, THREAD: 5 * 10**7}},
            0.3,
        ),
        # A thread that is missing in the first reading does not count.
        ("queued_share", {"run_queue_delay_ns": {PID: 10**8, LATER: 10**12}}, 0.1),
    ],
)
def test_a_counter_is_read_before_and_after(
    kernel: Kernel, figure: str, changes: dict[str, Any], expected: float
) -> None:
    assert getattr(conditions_of(kernel, **changes), figure) == pytest.approx(expected)


def test_a_thread_that_ends_does_not_make_the_delay_negative(kernel: Kernel) -> None:
    kernel.run_queue_delay_ns = {PID: 0, THREAD: 10**9}
    kernel.write()
    monitor = make_monitor(kernel)
    before = monitor.read_counters(PID)
    (kernel.proc / str(PID) / "task" / str(THREAD) / "schedstat").unlink()
    kernel.run_queue_delay_ns = {PID: 0}
    kernel.advance(1.0)
    assert monitor.conditions_since(before, PID).queued_share == 0.0


def test_a_counter_that_the_kernel_lacks_is_none(kernel: Kernel) -> None:
    (kernel.cgroup / "cpu.stat").unlink()
    kernel.throttled_usec = None
    assert conditions_of(kernel).throttled_seconds is None
    (kernel.cgroup / "cpu.stat").write_text("usage_usec 5\n")
    assert conditions_of(kernel).throttled_seconds is None


def test_the_run_queue_delay_of_an_ended_process_is_none(kernel: Kernel) -> None:
    monitor = make_monitor(kernel)
    before = monitor.read_counters(PID + 99)
    assert before.run_queue_delay_ns is None
    assert monitor.conditions_since(before, PID + 99).queued_share is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        # A GPU below its default clock, as with heavy kernels.
        ({"sm_clock_share": 0.86, "thermal_throttled_share": 0.0}, None),
        ({"queued_share": None, "throttled_seconds": None}, None),
        # At the limits.
        ({"stolen_share": 0.05, "queued_share": 0.2, "sm_clock_share": 0.75}, None),
        ({"stolen_share": 0.06}, "hypervisor took 6%"),
        ({"queued_share": 0.21}, "wait for a processor during 21%"),
        ({"throttled_seconds": 0.012}, "throttled for 12 ms"),
        ({"sm_clock_share": 0.7}, "70% of its default clock"),
        ({"thermal_throttled_share": 0.1}, "held down by heat or a fault"),
    ],
)
def test_each_disturbance_has_its_reason(changes: dict[str, Any], words: str | None) -> None:
    found = find_disturbance(None, builders.replace(UNDISTURBED, **changes), RULES)
    assert words in found if words and found else found is words


@pytest.mark.parametrize(("limit", "calls"), [(2.0, 6), (1.9, 12)], ids=["within", "beyond"])
def test_one_preset_limits_the_slowdown_of_the_host_for_calls_and_visits(
    limit: float, calls: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = builders.replace(RULES, most_host_slowdown=limit)
    presets = builders.replace(builders.shipped_catalogue().presets, visit_limits=rules)
    config = sessions.run_config(tmp_path, tmp_path, catalogue=builders.catalogue(presets=presets))
    asked = config.worker_request(builders.arm("engine"), tmp_path, tmp_path)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(host, "time_host", itertools.chain([1.0], itertools.repeat(2.0)).__next__)
    clock, size = FakeClock(), timing.VisitSize(6, 1)
    replace_clocks(monkeypatch, timing, clock)
    timer = timing.Timer(lambda _: clock.advance(0.01), ["input"], no_synchronize)
    measured = host.Host(asked.most_host_slowdown)
    visit = timing.time_visit(timer, size, shape=Shape(1), round_number=0, host=measured)
    assert len(visit.seconds) == calls
    assert (find_disturbance(visit, UNDISTURBED, rules) is None) is (calls == size.calls)


# The GPU


@pytest.mark.parametrize(
    ("bits", "is_undisturbed"),
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
def test_throttling_disturbs_a_visit_and_the_power_limit_does_not(
    kernel: Kernel, bits: int, is_undisturbed: bool
) -> None:
    conditions = conditions_of(
        kernel, gpu=GpuMonitor(UUID, FakeNvml(nvmlDeviceGetCurrentClocksThrottleReasons=bits))
    )
    assert (find_disturbance(None, conditions, RULES) is None) is is_undisturbed


@pytest.mark.parametrize(
    "absent",
    [
        "nvmlDeviceGetDefaultApplicationsClock",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetTotalEnergyConsumption",
    ],
)
def test_a_value_that_the_gpu_lacks_is_none_and_no_disturbance(kernel: Kernel, absent: str) -> None:
    gpu_monitor = GpuMonitor(UUID, FakeNvml(absent=[absent]))
    conditions = conditions_of(kernel, gpu=gpu_monitor)
    assert find_disturbance(None, conditions, RULES) is None
    clocks = {"nvmlDeviceGetDefaultApplicationsClock", "nvmlDeviceGetClockInfo"}
    assert (conditions.sm_clock_share is None) == (absent in clocks)
    has_energy = gpu_monitor.energy_joules() is not None
    assert has_energy == (absent != "nvmlDeviceGetTotalEnergyConsumption")


def test_the_samples_of_a_visit_are_those_taken_during_it(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions_module, "PERIOD_SECONDS", 0.001)
    nvml = FakeNvml(nvmlDeviceGetClockInfo=1980)
    gpu_monitor = GpuMonitor(UUID, nvml)
    with make_monitor(kernel, gpu_monitor).running():
        workers.wait_until(lambda: nvml.calls.count("nvmlDeviceGetClockInfo") > 5)
        assert [thread.name for thread in threading.enumerate()].count("gpu-monitor") == 1
    assert "gpu-monitor" not in [thread.name for thread in threading.enumerate()]
    samples = gpu_monitor.between(0.0, float("inf"))
    assert len(samples) >= 5
    assert gpu_monitor.between(samples[1].at, samples[3].at) == samples[1:4]


def test_the_counters_of_this_machine_can_be_read() -> None:
    monitor = ConditionsMonitor()
    conditions = monitor.conditions_since(monitor.read_counters(os.getpid()), os.getpid())
    assert conditions.seconds > 0
    assert 0 <= conditions.stolen_share <= 1


def test_several_gpus_have_the_lower_clock_mean_throttling_and_the_sum_of_energy(
    kernel: Kernel,
) -> None:
    hot = FakeNvml(
        nvmlDeviceGetClockInfo=1485, nvmlDeviceGetCurrentClocksThrottleReasons=HEAT | POWER_LIMIT
    )
    gpus = [GpuMonitor(UUID, FakeNvml()), GpuMonitor(UUID, hot)]
    monitor = ConditionsMonitor(gpus, proc=kernel.proc, clock=lambda: kernel.now)
    assert monitor.energy_joules() == pytest.approx(10_000.0)
    assert make_monitor(kernel).energy_joules() is None
    before = monitor.read_counters(PID)
    kernel.advance(1.0)
    conditions = monitor.conditions_since(before, PID)
    assert conditions.thermal_throttled_share == pytest.approx(0.5)
    assert conditions.sm_clock_share == pytest.approx(0.75)
    without = FakeNvml(absent=["nvmlDeviceGetTotalEnergyConsumption"])
    partly = ConditionsMonitor([gpus[0], GpuMonitor(UUID, without)], proc=kernel.proc)
    assert partly.energy_joules() is None


#: Spins in a second thread, as thread pools do, for a given CPU time; then writes `idle`.
SPINNING_SCRIPT = """
import pathlib, sys, threading, time

def spin():
    until = time.thread_time() + float(sys.argv[2])
    while time.thread_time() < until:
        pass
    pathlib.Path(sys.argv[1], "idle").touch()

threading.Thread(target=spin).start()
pathlib.Path(sys.argv[1], "spinning").touch()
time.sleep(3600)
"""


@pytest.fixture
def spinning(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", SPINNING_SCRIPT, str(tmp_path), str(request.param)]
    ) as process:
        while not (tmp_path / "spinning").exists():
            assert process.poll() is None
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("spinning", "most", "is_idle"), [(0.3, 60, True), (3600, 0.05, False)], indirect=["spinning"]
)
def test_spinning_threads_are_waited_for_until_the_limit(
    spinning: subprocess.Popen[bytes], most: float, is_idle: bool, tmp_path: pathlib.Path
) -> None:
    processes.wait_until_idle(spinning.pid, max_seconds=most)
    assert (tmp_path / "idle").exists() is is_idle


@pytest.mark.parametrize("spinning", [3600], indirect=True)
def test_a_process_that_has_ended_is_not_waited_for(
    spinning: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    spinning.kill()
    spinning.wait()
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    processes.wait_until_idle(spinning.pid)
    assert slept == [processes.SPIN_POLL_SECONDS] * processes.IDLE_POLLS


def sampling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "device-memory"]


def test_the_peak_is_the_highest_valid_value_during_its_block() -> None:
    monitor, library = nvml.monitor_of(100, 700, -1, (80 << 30) + 1, 1 << 63, 300)
    for highest in (700, 300):
        before = library.calls.count("used")
        with monitor.peak() as peak:
            assert len(sampling_threads()) == 1
            workers.wait_until(lambda: library.calls.count("used") > before + 7)  # noqa: B023
        assert (peak.highest, sampling_threads()) == (highest, [])


def test_sampling_stops_with_a_block_that_fails() -> None:
    with pytest.raises(RuntimeError), nvml.monitor_of(100)[0].peak():
        raise RuntimeError
    assert sampling_threads() == []


@pytest.mark.parametrize(("readings", "found"), [((900, 900, 500, 300, 300), 300), ((900,), 900)])
def test_the_memory_of_an_ended_process_is_read_after_the_driver_has_freed_it(
    readings: tuple[int, ...], found: int
) -> None:
    monitor, library = nvml.monitor_of(*readings)
    assert monitor.used_bytes_after_release(900, 0.5) == found
    assert library.calls.count("used") > 1


def test_a_device_that_does_not_answer_has_no_figures() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"]))
    assert monitor.used_bytes() is monitor.used_bytes_after_release(900) is None
    with monitor.peak() as peak:
        workers.wait_until(lambda: peak.highest is None)
    assert (peak.highest, monitor.total_bytes) == (None, None)


def test_the_memory_of_several_gpus_is_counted_together() -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID] * 2, nvml.FakeNvml(used=5 << 30))
    assert monitor.used_bytes() == 10 << 30
    assert monitor.total_bytes == 160 << 30


GIBIBYTE = 1 << 30


def device_memory(peak: int | None) -> DeviceMemory:
    return DeviceMemory(arm="compiled", process=0, peak_bytes=peak)


def host_memory(peak: int | None) -> WorkerReported:
    memory = MemoryRead(peak_rss_bytes=peak, device_reserved_bytes=None)
    return WorkerReported(arm="compiled", process=0, worker_event=memory)


@pytest.mark.parametrize(("used", "fits"), [(50, True), (68, True), (70, False)])
def test_a_worker_a_little_larger_than_the_largest_must_fit_on_the_gpu(
    used: int, fits: bool
) -> None:
    monitor = DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(used=used * GIBIBYTE))
    headroom = MemoryHeadroom(monitor)
    for run_event in (
        device_memory(4 * GIBIBYTE),
        device_memory(10 * GIBIBYTE),
        device_memory(None),
        host_memory(79 * GIBIBYTE),
    ):
        headroom.update(run_event)
    assert headroom.fits_another_worker() is fits


@pytest.mark.parametrize(("available", "fits"), [(12, True), (10, False)])
def test_on_the_host_the_resident_set_sizes_count(available: int, fits: bool) -> None:
    headroom = MemoryHeadroom(available_bytes=lambda: available * GIBIBYTE)
    for run_event in (host_memory(3 * GIBIBYTE), host_memory(10 * GIBIBYTE), host_memory(None)):
        headroom.update(run_event)
    assert headroom.fits_another_worker() is fits


def test_a_worker_fits_where_memory_cannot_be_read() -> None:
    headroom = MemoryHeadroom(DeviceMemoryMonitor([nvml.UUID], nvml.FakeNvml(absent=["used"])))
    headroom.update(device_memory(10 * GIBIBYTE))
    assert headroom.fits_another_worker()
    assert available_host_bytes() > 0


def test_available_memory_is_limited_by_the_cgroup(tmp_path: pathlib.Path) -> None:
    builders.write_cgroup(tmp_path, tmp_path)
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("48576\n")
    assert available_host_bytes(tmp_path) == 1_000_000
