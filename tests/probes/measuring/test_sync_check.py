"""A workflow that says too early that it is done is found out, and no other is accused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

import pytest
from fake_clock import StandingClock, no_wait

from probes.measuring import sync_check


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    clock = StandingClock()
    monkeypatch.setattr(sync_check, "time", clock)
    monkeypatch.setattr(sync_check, "seconds_kept_waiting", lambda: clock.kept_waiting)
    return clock


def test_work_that_goes_on_after_the_workflow_says_it_is_done_is_seen(clock: StandingClock) -> None:
    working: list[float] = []

    def start(_: str) -> None:
        working.append(0.5)
        clock.pass_by(0.5)

    def wait_for_device() -> None:
        clock.pass_by(sum(working))
        working.clear()

    assert sync_check.device_share(start, "input", no_wait, wait_for_device) == pytest.approx(0.5)
    assert sync_check.device_share(start, "input", wait_for_device, wait_for_device) == 0.0


def test_an_output_that_takes_longer_to_read_than_later_was_not_done(clock: StandingClock) -> None:
    done: list[float] = []

    def start(_: str) -> None:
        clock.pass_by(0.1)
        done.append(clock.perf_counter() + 0.3)

    def read(_: object) -> None:
        clock.pass_by(max(done[-1] - clock.perf_counter(), 0.0) + 0.05)

    # 0.35 s at once, and reading alone takes 0.05, of which twice may be chance.
    assert sync_check.output_share(start, read, "input", no_wait) == pytest.approx(0.25 / 0.35)


def test_an_output_that_takes_long_to_read_whenever_it_is_read_was_done(
    clock: StandingClock,
) -> None:
    late = sync_check.output_share(
        lambda _: clock.pass_by(0.1), lambda _: clock.pass_by(0.4), "input", no_wait
    )
    assert late == pytest.approx(0.0)


@pytest.mark.parametrize(
    "seconds",
    [
        [2.2, 2.0, 2.1, 1.9, 2.3, 2.15, 2.4, 2.1, 2.2, 2.05],
        [7.6, 3.9],  # every one at once took twice as long as later; measured on 64 processors
    ],
)
def test_reads_that_waver_by_more_than_a_call_takes_are_no_late_work(
    clock: StandingClock, seconds: list[float]
) -> None:
    at_once_and_later = itertools.cycle(seconds)
    late = sync_check.output_share(
        lambda _: clock.pass_by(0.09),
        lambda _: clock.pass_by(next(at_once_and_later)),
        "input",
        no_wait,
    )
    assert late == 0.0


def test_what_a_busy_machine_keeps_a_read_waiting_is_no_late_work(clock: StandingClock) -> None:
    waits = itertools.cycle([0.3, 0.0])

    def read_after_a_wait(_: object) -> None:
        waited = next(waits)
        clock.kept_waiting += waited
        clock.pass_by(0.1 + waited)

    assert sync_check.output_share(
        lambda _: clock.pass_by(0.09), read_after_a_wait, "input", no_wait
    ) == pytest.approx(0.0)


def test_how_long_a_thread_waits_for_a_processor_is_told() -> None:
    allowed = os.sched_getaffinity(0)
    spin = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    processor = min(allowed)
    with subprocess.Popen(
        [sys.executable, "-c", spin, str(processor)], stdout=subprocess.PIPE
    ) as rival:
        assert rival.stdout
        rival.stdout.readline()
        os.sched_setaffinity(0, {processor})
        try:
            before, end = sync_check.seconds_kept_waiting(), time.perf_counter() + 0.5
            while time.perf_counter() < end:
                pass
            waited = sync_check.seconds_kept_waiting() - before
        finally:
            os.sched_setaffinity(0, allowed)
            rival.kill()
    assert waited > 0.02, "the rival has half of the processor"


@pytest.mark.parametrize(("seconds", "tries"), [(0.2, 1), (0.05, 5)])
def test_late_work_of_a_long_call_is_looked_for_once(
    clock: StandingClock, seconds: float, tries: int
) -> None:
    called: list[str] = []

    def call(fed: str) -> None:
        called.append(fed)
        clock.pass_by(seconds)

    assert sync_check.device_share(call, "input", no_wait, no_wait) == 0.0
    assert len(called) == tries


def test_a_machine_that_stalls_once_makes_no_long_call_late(clock: StandingClock) -> None:
    waits = iter([0.0, 0.0, 0.1, *[0.0] * 20])
    late = sync_check.device_share(
        lambda _: clock.pass_by(0.6), "input", no_wait, lambda: clock.pass_by(next(waits))
    )
    assert late == 0.0
