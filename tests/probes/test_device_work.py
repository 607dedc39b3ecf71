from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable
from unittest import mock

import pytest
from fake_clock import FakeClock, no_synchronize, replace_clocks
from forks import run_command

from probes import device_work
from probes.shape import Shape
from probes.timing import Timer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    replace_clocks(monkeypatch, device_work, clock)
    monkeypatch.setattr(device_work, "run_queue_seconds", lambda: clock.run_queue_seconds)
    return clock


def late_share_of_output(call: Callable[[str], object], read: Callable[[object], object]) -> float:
    return device_work.late_share_of_output(Timer(call, ["input"], no_synchronize), read)


def test_work_on_the_device_after_synchronise_is_detected(clock: FakeClock) -> None:
    working: list[float] = []

    def start(_: str) -> None:
        working.append(0.5)
        clock.advance(0.5)

    def wait_for_device() -> None:
        clock.advance(sum(working))
        working.clear()

    timer = Timer(start, ["input"], no_synchronize)
    assert device_work.late_share_on_device(timer, wait_for_device) == pytest.approx(0.5)
    timer = Timer(start, ["input"], wait_for_device)
    assert device_work.late_share_on_device(timer, wait_for_device) == 0.0


def test_an_output_that_is_slower_to_read_at_once_than_later_was_late(clock: FakeClock) -> None:
    done: list[float] = []

    def start(_: str) -> None:
        clock.advance(0.1)
        done.append(clock.perf_counter() + 0.3)

    def read(_: object) -> None:
        clock.advance(max(done[-1] - clock.perf_counter(), 0.0) + 0.05)

    # An immediate read takes 0.35 s, a later one 0.05, and a factor of two may be chance.
    assert late_share_of_output(start, read) == pytest.approx(0.25 / 0.35)


@pytest.mark.parametrize(
    "seconds",
    [
        [0.4],  # always slow
        [2.2, 2.0, 2.1, 1.9, 2.3, 2.15, 2.4, 2.1, 2.2, 2.05],
        [7.6, 3.9],  # immediate reads took twice as long as later ones; measured on 64 processors
    ],
)
def test_reads_that_are_as_slow_later_are_no_late_work(
    clock: FakeClock, seconds: list[float]
) -> None:
    immediate_and_later = itertools.cycle(seconds)
    late = late_share_of_output(
        lambda _: clock.advance(0.09), lambda _: clock.advance(next(immediate_and_later))
    )
    assert late == 0.0


def test_run_queue_delay_is_no_late_work(clock: FakeClock) -> None:
    waits = itertools.cycle([0.3, 0.0])

    def read_after_a_wait(_: object) -> None:
        waited = next(waits)
        clock.run_queue_seconds += waited
        clock.advance(0.1 + waited)

    late = late_share_of_output(lambda _: clock.advance(0.09), read_after_a_wait)
    assert late == pytest.approx(0.0)


def test_the_run_queue_delay_of_a_thread_is_read() -> None:
    allowed = os.sched_getaffinity(0)
    spin = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True: pass
"""
    processor = min(allowed)
    with subprocess.Popen(
        [sys.executable, "-c", spin, str(processor)], stdout=subprocess.PIPE
    ) as rival:
        assert rival.stdout
        rival.stdout.readline()
        os.sched_setaffinity(0, {processor})
        try:
            before, end = device_work.run_queue_seconds(), time.perf_counter() + 0.5
            while time.perf_counter() < end:
                pass
            waited = device_work.run_queue_seconds() - before
        finally:
            os.sched_setaffinity(0, allowed)
            rival.kill()
    assert waited > 0.02, "the rival uses half of the processor"


@pytest.mark.parametrize(("seconds", "tries"), [(0.2, 1), (0.05, 5)])
def test_a_long_clean_call_is_tried_once(clock: FakeClock, seconds: float, tries: int) -> None:
    called: list[str] = []

    def call(device_inputs: str) -> None:
        called.append(device_inputs)
        clock.advance(seconds)

    timer = Timer(call, ["input"], no_synchronize)
    assert device_work.late_share_on_device(timer, no_synchronize) == 0.0
    assert len(called) == tries


def test_one_stall_of_the_machine_does_not_make_a_long_call_late(clock: FakeClock) -> None:
    waits = iter([0.0, 0.0, 0.1, *[0.0] * 20])
    timer = Timer(lambda _: clock.advance(0.6), ["input"], no_synchronize)
    assert device_work.late_share_on_device(timer, lambda: clock.advance(next(waits))) == 0.0


#: Profiles a call of eager PyTorch and prints its profile and whether Inductor was imported.
PROFILE = """
import sys
import torch
from probes import device_work
from probes.shape import Shape
from probes.timing import Timer
found = device_work.profile_calls(Timer(torch.neg, [torch.ones(2)], lambda: None), Shape(1))
print(found.shape.batch_size, "torch._inductor" in sys.modules)
"""


def test_a_profile_of_eager_pytorch_imports_no_compiler() -> None:
    assert run_command([sys.executable, "-c", PROFILE]).stdout.split() == ["1", "False"]


#: Name, device, and milliseconds of the start and the end of what a profiler saw in two calls.
SEEN = (
    ("cudaLaunchKernel", "cpu", 0, 1),
    ("cuLaunchKernel", "cpu", 1, 2),
    ("cudaGraphLaunch", "cpu", 2, 3),
    ("gemm", "cuda", 100, 300),
    ("softmax", "cuda", 200, 400),
    ("Memcpy HtoD", "cuda", 500, 900),
)


def test_a_profile_counts_kernels_and_the_time_in_which_any_runs(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        types.SimpleNamespace(
            name=lambda name=name: name,
            device_type=lambda device=device: device,
            start_ns=lambda start=start: start * 10**6,
            end_ns=lambda end=end: end * 10**6,
        )
        for name, device, start, end in SEEN
    ]
    torch = mock.MagicMock()
    torch.autograd.DeviceType.CUDA = "cuda"
    profile = torch.autograd.profiler.profile.return_value.__enter__.return_value
    profile.kineto_results.events.return_value = events
    monkeypatch.setitem(sys.modules, "torch", torch)
    timer = Timer(lambda _: clock.advance(0.5), ["one", "other"], no_synchronize)
    found = device_work.profile_calls(timer, Shape(1))
    assert found is not None
    assert (found.kernels_per_call, found.launches_per_call) == (1.0, 1.0)
    assert found.graph_launches_per_call == 0.5
    assert found.device_busy_share == pytest.approx(0.3)
