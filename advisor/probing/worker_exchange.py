"""Exchanges with one worker: it gets a token, does the work, and is ready again or has ended."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.run_events import EnergyMeasured, RunEvent
from advisor.probing.conditions import ConditionsMonitor
from advisor.probing.device_memory import increase
from advisor.probing.worker_pool import WorkerPool
from advisor.system.host_lock import HostLock


class WorkerExchange:
    """Exchanges with the workers of a session.

    Events that occur under the host lock are yielded after it is released.
    """

    def __init__(
        self, pool: WorkerPool, host_lock: HostLock, conditions_monitor: ConditionsMonitor
    ) -> None:
        self._pool = pool
        self._host_lock = host_lock
        self._conditions_monitor = conditions_monitor

    def send(self, arm: str, token: str) -> None:
        """Send a token to the arm's worker without waiting for an answer."""
        self._pool.send(self._pool.workers[arm], token)

    def send_and_wait(self, arm: str, token: str) -> Iterator[RunEvent]:
        """Send a token to the arm's worker, and wait until it is ready again or has ended."""
        deferred: list[RunEvent] = []
        with self._host_lock.exclusive():
            yield from self.send_and_defer(arm, token, deferred)
        yield from deferred

    def send_and_defer(self, arm: str, token: str, deferred: list[RunEvent]) -> Iterator[RunEvent]:
        """Do the same for a caller that holds the lock and yields the events in `deferred`."""
        self._pool.workers.expect_ready(arm)
        self.send(arm, token)
        yield from self._pool.run_until(lambda: self._pool.workers.is_ready_or_ended(arm), deferred)
        self._pool.busy_processes.pause(arm)

    def with_energy(self, arm: str, batch_size: int, token: str) -> Iterator[RunEvent]:
        """Do the same next to other timing, and report the energy that this used."""
        deferred: list[RunEvent] = []
        with self._host_lock.shared():
            before = self._conditions_monitor.energy_joules()
            yield from self.send_and_defer(arm, token, deferred)
            joules = increase(before, self._conditions_monitor.energy_joules())
        yield from deferred
        process = self._pool.workers[arm].process
        yield EnergyMeasured(arm=arm, process=process, batch_size=batch_size, joules=joules)
