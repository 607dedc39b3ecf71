"""A clock for timing tests that only advances on request."""

from __future__ import annotations

import pytest

NANOSECONDS_PER_SECOND = 1_000_000_000


class FakeClock:
    """Replaces the functions of the module `time`."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        #: Time on the run queue, set by tests that replace the kernel's counter.
        self.run_queue_seconds = 0.0

    def advance(self, seconds: float) -> None:
        self.nanoseconds += round(seconds * NANOSECONDS_PER_SECOND)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def perf_counter_ns(self) -> int:
        return self.nanoseconds

    def perf_counter(self) -> float:
        return self.nanoseconds / NANOSECONDS_PER_SECOND


def replace_clocks(monkeypatch: pytest.MonkeyPatch, module: object, clock: object) -> None:
    """Replace the clocks that a module has bound by the methods of `clock`."""
    for name in ("perf_counter", "perf_counter_ns", "sleep"):
        if hasattr(module, name) and hasattr(clock, name):
            monkeypatch.setattr(module, name, getattr(clock, name))


def no_synchronize() -> None:
    """Replace the synchronization of a device that has always finished."""


def no_op(device_input: object) -> None:
    """Replace a compiled program."""
