"""The servers of arms under load: closed loops, texts that are checked, requests of a generator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from advisor.domain.run_events import RunEvent
from advisor.probing.processors import confine
from advisor.probing.worker_exchange import WorkerExchange
from advisor.probing.worker_pool import WorkerPool
from advisor.system.host_lock import HostLock

Result = TypeVar("Result")


class ServedArms:
    """The servers of the arms of a session."""

    def __init__(self, pool: WorkerPool, host_lock: HostLock, exchange: WorkerExchange) -> None:
        self._pool = pool
        self._host_lock = host_lock
        self._exchange = exchange

    def confine(self, arm: str, processors: Collection[int]) -> None:
        """Let the arm's worker, and what it starts from now on, run on `processors` only."""
        confine(self._pool.workers[arm].directory, processors)

    def probe(self, arm: str, concurrency: int, seconds: float) -> Iterator[RunEvent]:
        """Keep so many requests at the arm's server for `seconds`, and report the energy."""
        token = f"probe {concurrency} {seconds:g}"
        yield from self._exchange.with_energy(arm, concurrency, token)

    def start_sampling(self, arm: str, seconds: float) -> None:
        """Let the worker check a text of its server every so many seconds."""
        self._exchange.send(arm, f"sample {seconds:.3f}")

    def end_sampling(self, arm: str) -> Iterator[RunEvent]:
        """Wait until the worker has checked its last text; a wrong one has ended it."""
        yield from self._exchange.send_and_wait(arm, "enough")

    def under_load(self, arm: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which sends requests to the server of the arm.

        Meanwhile no other run on this host builds or times.
        """
        with self._host_lock.exclusive():
            self._pool.busy_processes.resume(arm)
            return work()
