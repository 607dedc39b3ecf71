"""A clock that goes on only when it is told, and calls that take no time by it."""

from __future__ import annotations

NANOSECONDS_PER_SECOND = 1_000_000_000


class StandingClock:
    """Stands for the module `time`: it goes on only when told."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self.cpu_nanoseconds = 0
        self.kept_waiting = 0.0

    def pass_by(self, seconds: float, *, cpu_seconds: float = 0.0) -> None:
        self.nanoseconds += round(seconds * NANOSECONDS_PER_SECOND)
        self.cpu_nanoseconds += round(cpu_seconds * NANOSECONDS_PER_SECOND)

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds)

    def perf_counter_ns(self) -> int:
        return self.nanoseconds

    def perf_counter(self) -> float:
        return self.nanoseconds / NANOSECONDS_PER_SECOND

    def process_time(self) -> float:
        return self.cpu_nanoseconds / NANOSECONDS_PER_SECOND


def no_wait() -> None:
    """Stand for a device that has always finished."""


def do_nothing(fed: object) -> None:
    """Stand for a program."""
