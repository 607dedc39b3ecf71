"""What disturbs measurements, and waiting until it does not."""

from __future__ import annotations

from collections.abc import Sequence

import builders
import pytest
from fake_clock import FakeClock

from advisor.domain.machine import GpuProcess, MachineActivity
from advisor.domain.run_events import QuietChecked
from advisor.execute.quiet import check_now, find_problems, wait_until_quiet
from advisor.report.formatting import describe_check

QUIET = MachineActivity(seconds=1.0, usable_processors=2, idle_processors=2.0, stolen_share=0.0)
BUSY = builders.replace(QUIET, idle_processors=0.9)
LIMITS = builders.shipped_catalogue().presets.quiet


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, ()),
        ({"idle_processors": 0.9}, ("cpu-busy",)),
        # A cgroup with two of 64 processors, on a host whose other processors are idle.
        ({"idle_processors": 30.0}, ()),
        ({"idle_processors": None, "stolen_share": None}, ()),
        ({"stolen_share": 0.2}, ("cpu-stolen",)),
        ({"gpu_processes": (GpuProcess(pid=1, memory_bytes=None, name=None),)}, ("gpu-processes",)),
        ({"gpu_busy_share": 0.5}, ("gpu-busy",)),
        ({"gpu_busy_share": 0.0, "temperature_c": 40, "clocks_held_down": False}, ()),
        ({"clocks_held_down": True, "temperature_c": 90}, ("gpu-clocks-held-down",)),
    ],
)
def test_what_disturbs_is_found(changes: dict[str, object], problems: tuple[str, ...]) -> None:
    check = check_now(lambda _: builders.replace(QUIET, **changes), LIMITS)
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

    checks = list(wait_until_quiet(read, LIMITS, allowed_seconds, clock.perf_counter))
    return checks, clock.perf_counter()


def test_without_a_limit_the_load_is_observed_once() -> None:
    for load in (QUIET, BUSY):
        (checked,), seconds = wait([load], 0.0)
        assert not checked.waits
        assert checked.check.problems == find_problems(load, LIMITS)
        assert seconds == pytest.approx(LIMITS.sample_seconds)


def test_a_quiet_machine_does_not_wait() -> None:
    (checked,), _ = wait([QUIET], 300.0)
    assert not checked.waits
    assert checked.check.waited_seconds == 0.0


def test_waiting_ends_when_the_machine_is_quiet() -> None:
    (first, last), seconds = wait([BUSY, BUSY, BUSY, QUIET], 300.0)
    assert first.waits
    assert not last.waits
    assert last.check.problems == ()
    assert last.check.waited_seconds == pytest.approx(3 * LIMITS.waiting_sample_seconds)
    assert seconds < 300


def test_waiting_ends_at_the_limit() -> None:
    checks, seconds = wait([BUSY], 12.0)
    assert [checked.waits for checked in checks] == [True, False]
    assert checks[-1].check.problems == ("cpu-busy",)
    assert checks[-1].check.waited_seconds == pytest.approx(12.0)
    assert seconds == pytest.approx(12.0 + LIMITS.sample_seconds)
